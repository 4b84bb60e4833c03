package demo

import "testing"

func TestRemarkOnField(t *testing.T) {
	for _, c := range []struct{ field, value, want string }{
		{"rate", "5", "permits"},
		{"type", "0", "OVERALL"},
		{"session:ABC", "0000000000000007 1763713071123 3 1763713071123", "request 7 took 3 permits"},
		{"session:ABC", "0000000000000008 1763713071123 -1 0", "request 8 gave back 1 permit"},
		{"session:ABC", "0000000000000009 1763713071123 0 1763713071123 20", "request 9 took 0 permits"},
		{"session:ABC", "x", "no form that Go writes"},
		{"other", "x", ""},
	} {
		if got := remarkOnField(c.field, c.value); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.field, c.value, got, c.want)
		}
	}
}
