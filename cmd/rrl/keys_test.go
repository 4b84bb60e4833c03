package main

import "testing"

func TestRemarkOnField(t *testing.T) {
	for _, c := range []struct{ field, value, want string }{
		{"rate", "5", "permits"},
		{"type", "0", "OVERALL"},
		{"session:ABC", "1763713071123 7 3 1763713071123", "its request 7 took 3 permits"},
		{"session:ABC", "1763713071123 8 -1 0", "its request 8 gave back 1 permit"},
		{"session:ABC", "1763713071123 9 0 1763713071123 20", "its request 9 took 0 permits"},
		{"session:ABC", "x", "no form that Go writes"},
		{"other", "x", ""},
	} {
		if got := remarkOnField(c.field, c.value); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.field, c.value, got, c.want)
		}
	}
}
