// By how much a page is wider than the window.
document.scrollingElement.scrollWidth > innerWidth ? `${document.scrollingElement.scrollWidth} px` : ''
