package golden

import "regexp"

// timeless are the forms of times, and what stands for them.
var timeless = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z|[+-]\d\d:\d\d)`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "CLOCK"},
	{regexp.MustCompile(`(_ms": )\d+`), "${1}N"}, // negative ones are replies of PTTL that are no times
	{regexp.MustCompile(`-?\b(\d+(\.\d+)?(h|ms|m|s))+\b`), "TIME"},
	{regexp.MustCompile(`\b\d{12,}\b`), "N"}, // ms since 1970, and fencing tokens, which begin there
	// The width of a column and the end of a line of a paragraph depend on the times in them.
	{regexp.MustCompile(`\n {4}| +`), ""},
}

// Timeless returns a text with a word for each time in it, and without blanks. Two texts that differ only in
// times become the same.
func Timeless(text string) string {
	for _, form := range timeless {
		text = form.is.ReplaceAllString(text, form.as)
	}
	return text
}
