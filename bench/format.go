package main

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// A num is a figure in the stored data. JSON has no infinity: it becomes null,
// which the page prints as "-".
type num float64

// MarshalJSON returns the figure, or null if it is not finite.
func (n num) MarshalJSON() ([]byte, error) {
	if v := float64(n); !math.IsInf(v, 0) && !math.IsNaN(v) {
		return json.Marshal(v)
	}
	return []byte("null"), nil
}

// figure prints a value with three digits that count.
func figure(v float64) string {
	abs := math.Abs(v)
	switch {
	case math.IsInf(v, 0) || math.IsNaN(v):
		return "-"
	case abs >= 1000:
		return thousands(v)
	case abs >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return trim(strconv.FormatFloat(v, 'f', 1, 64))
	case abs >= 1:
		return trim(strconv.FormatFloat(v, 'f', 2, 64))
	}
	return trim(strconv.FormatFloat(v, 'f', 4, 64))
}

// trim removes zeros behind the point, and a point that nothing follows.
func trim(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }

// thousands prints a value as a whole number, or with three digits that count
// from 100,000 on, with a comma between the thousands.
func thousands(v float64) string {
	if v >= 1e5 {
		digits := math.Pow(10, math.Floor(math.Log10(v))-2)
		v = math.Round(v/digits) * digits
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
