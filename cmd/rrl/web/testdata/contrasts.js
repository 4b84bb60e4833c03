// The texts of a page with a contrast below 4.5 to 1 (WCAG AA).
(() => {
	const numbers = (color) => color.match(/[\d.]+/g).map(Number);
	const light = (color) => {
		const linear = (n) => n <= .03928 ? n / 12.92 : ((n + .055) / 1.055) ** 2.4;
		const [r, g, b] = numbers(color).map((n) => linear(n / 255));
		return .2126 * r + .7152 * g + .0722 * b;
	};
	const behind = (element) => {
		for (; element; element = element.parentElement) {
			const color = getComputedStyle(element).backgroundColor;
			if (numbers(color)[3] !== 0) return color;
		}
	};
	const hard = [];
	for (const element of document.querySelectorAll('body *')) {
		const says = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
		if (!says || !element.checkVisibility()) continue;
		const style = getComputedStyle(element);
		const [a, b] = [element instanceof SVGElement ? style.fill : style.color, behind(element)].map(light);
		const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (contrast < 4.5) hard.push(element.outerHTML.slice(0, 80) + ' ' + contrast);
	}
	return hard.join('\n');
})()
