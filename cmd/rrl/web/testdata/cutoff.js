// The elements of a page that are wider than the place that they have.
[...document.querySelectorAll('body *')].filter((element) => {
	if (!element.checkVisibility() || element.closest('.unseen, .skip')) return false;
	if (element instanceof SVGTextElement) {
		const [text, around] = [element, element.ownerSVGElement].map((one) => one.getBoundingClientRect());
		return text.left < around.left - 1 || text.right > around.right + 1;
	}
	return element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0 &&
		getComputedStyle(element).overflowX !== 'visible';
}).map((element) => element.outerHTML.slice(0, 100)).join('\n')
