package wire

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// The keys are named as Redisson names them (docs/keys.md).
func TestKeys(t *testing.T) {
	for name, want := range map[string][5]string{
		"foo": {"foo", "{foo}:value", "{foo}:permits", "{foo}:value:ID", "{foo}:permits:ID"},
		"u:{42}:rl": {"u:{42}:rl", "u:{42}:rl:value", "u:{42}:rl:permits",
			"u:{42}:rl:value:ID", "u:{42}:rl:permits:ID"},
		"a}b": {"a}b", "{a}b}:value", "{a}b}:permits", "{a}b}:value:ID", "{a}b}:permits:ID"},
		"a{b": {"a{b", "a{b:value", "a{b:permits", "a{b:value:ID", "a{b:permits:ID"},
	} {
		k := KeysOf(name, "ID")
		if got := [5]string(k.All()); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A cluster would keep the keys of some names in different slots (B23 in docs/faults.md).
func TestSlots(t *testing.T) {
	for name, fits := range map[string]bool{
		"foo": true, "u:{42}:rl": true, "{x}": true, "x{y}z{": true, "a b": true, "é": true,
		"a{b": false, "a}b": false, "{}x": false, "a{}b": false, "}x{y": false,
	} {
		if got := OneSlot(name); got != fits {
			t.Errorf("%q: one slot %v, want %v", name, got, fits)
		}
	}
}

// FuzzKeys: a name becomes the keys that Redisson gives it. Where OneSlot says that
// they are in one slot of a cluster, go-redis agrees.
func FuzzKeys(f *testing.F) {
	for _, name := range []string{
		"foo", "u:{42}:rl", "a}b", "a{b", "{}x", "a{}b{c}", "}x{y}z", "{{x}}", "\x00\xff", "é{ü}",
	} {
		f.Add(name, "6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	}
	stop := errors.New("the keys are in one slot")
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		// Watch compares the slots of its keys before it asks for the nodes.
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return nil, stop },
	})
	f.Cleanup(func() { _ = cluster.Close() })
	f.Fuzz(func(t *testing.T, name, id string) {
		if name == "" || id == "" || strings.ContainsAny(id, "{}") {
			t.Skip()
		}
		k := KeysOf(name, id)
		base := name
		if !strings.Contains(name, "{") {
			base = "{" + name + "}"
		}
		value, permits := base+":value", base+":permits"
		want := [5]string{name, value, permits, value + ":" + id, permits + ":" + id}
		if got := [5]string(k.All()); got != want {
			t.Fatalf("%q: %q, want %q", name, got, want)
		}
		err := cluster.Watch(context.Background(), nil, append(k.All(), k.Changed)...)
		// The keys of other names share a slot by chance only: one pair in 16,384 does.
		if OneSlot(name) && !errors.Is(err, stop) {
			t.Fatalf("%q: one slot, but go-redis says %v", name, err)
		}
	})
}

// The slots are those of CLUSTER KEYSLOT.
func TestSlotNumbers(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "foo": 12182, "123456789": 0x31C3, "{foo}:value": 12182, "a{foo}b": 12182, "{}foo": 9500,
	} {
		if got := Slot(key); got != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
}

// The fields of Clients and their Group calls are sessions, and no others.
func TestIsSession(t *testing.T) {
	for field, want := range map[string]bool{
		"session:QX3NDKZ7A4MHC2TB": true, "session:QX3NDKZ7A4MHC2TB.12": true,
		"session:QX3NDKZ7A4MHC2TB.0": true, "session:freed": false, "session:QX3NDKZ7A4MHC2TBA": false,
		"session:QX3NDKZ7A4MHC2T": false, "session:QX3NDKZ7A4MHC2T1": false,
		"session:qx3ndkz7a4mhc2tb": false, "session:QX3NDKZ7A4MHC2TB.": false,
		"session:QX3NDKZ7A4MHC2TB.x": false, "session:": false, "QX3NDKZ7A4MHC2TB": false, "rate": false,
	} {
		if got := IsSession(field); got != want {
			t.Errorf("%s: %v, want %v", field, got, want)
		}
	}
}
