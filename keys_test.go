package rratelimiter

import "testing"

// The names of section A of Redisson's wire format.
func TestKeys(t *testing.T) {
	for name, want := range map[string][5]string{
		"foo":       {"foo", "{foo}:value", "{foo}:permits", "{foo}:value:ID", "{foo}:permits:ID"},
		"u:{42}:rl": {"u:{42}:rl", "u:{42}:rl:value", "u:{42}:rl:permits", "u:{42}:rl:value:ID", "u:{42}:rl:permits:ID"},
		"a}b":       {"a}b", "{a}b}:value", "{a}b}:permits", "{a}b}:value:ID", "{a}b}:permits:ID"},
		"a{b":       {"a{b", "a{b:value", "a{b:permits", "a{b:value:ID", "a{b:permits:ID"},
	} {
		k := &limiterKeys{hash: name}
		k.derive("ID")
		if got := [5]string(k.all()); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// B23: names whose keys a cluster would keep in different slots.
func TestSlots(t *testing.T) {
	for name, fits := range map[string]bool{
		"foo": true, "u:{42}:rl": true, "{x}": true, "x{y}z{": true, "a b": true, "é": true,
		"a{b": false, "a}b": false, "{}x": false, "a{}b": false, "}x{y": false,
	} {
		k := &limiterKeys{hash: name}
		k.derive("ID")
		if err := k.checkSlot(); (err == nil) != fits {
			t.Errorf("%q: %v, want refused: %v", name, err, !fits)
		}
	}
}
