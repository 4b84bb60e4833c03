package limittest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redisson-go/rratelimiter/limit"
)

// keyedChecks are the rules of a Keyed for its keys.
var keyedChecks = []check{
	{name: "keys do not know of each other", check: keysApart},
	{name: "an empty key is an ErrInvalidArgument", check: emptyKey},
	{name: "a strange key is refused or has a limit of its own", check: strangeKeys},
	{name: "many keys have a limit each", check: manyKeys},
	{name: "keys that were idle are full and not fuller", check: idleKeys},
	{name: "many callers of some keys at once get the rate of each", check: manyCallersOfKeys},
}

func keysApart(r *run) {
	k := r.keys(10)
	one, other := k("one"), k("other")
	r.has(one, 10)
	if left := r.granted(other, 4).Remaining; left != r.left(6) {
		r.fail("Remaining of the other key is %d, want %d", left, r.left(6))
	}
	r.refused(one, 1)
	r.has(other, r.left(6))
}

func emptyKey(r *run) {
	k := r.keys(10)
	r.fails(r.t.Context(), k(""), 1, limit.ErrInvalidArgument)
	r.has(k("key"), 10)
}

// strange are keys that a limiter may confuse because it trims, folds, cuts, escapes or splits them,
// or because of the names of its own keys in the store.
var strange = []string{
	"a", "A", " a", "a ", "a\t", "a\n", "a\r\n", "\na", "a\x00", "a\x00b", "\x00", " ", "\n",
	"{a}", "{a}b", "{a", "a}", "{}", "{}a", "{{a}}", "}{",
	"a:b", "a::b", ":a", "a:", "a:value", "{a}:value", "{a}:permits",
	"a/b", "a//b", "a/../b", "a/b/", "a.b", "a,b", "a;b", "a|b", "a=b", "a&b", "a#b", "a\\b", `"a"`, "'a'",
	"a%20", "a+", "%00", "*", "a*", "?", "[a]", "$1",
	"0", "00", "-0", "0.0", "1e0", "1", "null", "nil", "<nil>",
	"\u00e9", "e\u0301", "\u00c9", "\u212b", "\u00c5", "\u200ba", "\ufeffa", "\ufffd", "\xff", "\xfe", "\xc3",
	"日本", "日本\u3000", "👍", "👍\ufe0f",
	strings.Repeat("x", 255), strings.Repeat("x", 256),
	strings.Repeat("x", 10_000), strings.Repeat("x", 10_001), strings.Repeat("x", 10_000) + "y",
}

// strangeKeys takes all permits of each key. A key that has fewer shares the limit of an earlier one. It
// also goes backwards, as a key may spoil only a later one.
func strangeKeys(r *run) {
	r.eachHasALimit(strange)
	backwards := slices.Clone(strange)
	slices.Reverse(backwards)
	r.eachHasALimit(backwards)
}

func (r *run) eachHasALimit(keys []string) {
	k := r.keys(2)
	for _, key := range keys {
		l := k(key)
		result, err := r.ask(r.t.Context(), l, 2)
		switch {
		case errors.Is(err, limit.ErrInvalidArgument):
			continue
		case err != nil:
			r.fail("the key %.40q is an error: %w; want a limit or an ErrInvalidArgument", key, err)
		case !result.Allowed:
			r.fail("the key %.40q has the limit of another: %+v", key, result)
		}
		r.refused(l, 1)
	}
}

// someKeys returns the limiters of n keys.
func someKeys(k limiterOf, n int) (all []limit.Limiter) {
	for i := range n {
		all = append(all, k(fmt.Sprint("key ", i)))
	}
	return all
}

func manyKeys(r *run) {
	all := someKeys(r.keys(2), 300)
	for _, want := range []int64{1, 0}[:1+r.left(1)] {
		for i, l := range all {
			left := r.granted(l, 1).Remaining
			if least := r.left(want); left < least || left > least+r.returned(2) {
				r.fail("Remaining of key %d is %d, want %d", i, left, least)
			}
		}
	}
	if r.returned(2) > 0 {
		return
	}
	for _, l := range all {
		r.refused(l, 1)
	}
}

func idleKeys(r *run) {
	all := someKeys(r.keys(3), 30)
	for _, l := range all {
		r.granted(l, 2)
	}
	r.sleep(3 * r.spec.Interval)
	for _, l := range all {
		r.has(l, 3)
	}
}

func manyCallersOfKeys(r *run) {
	const rate, callers = 20, 64
	all := someKeys(r.keys(rate), 4)
	granted := make([]atomic.Int64, len(all))
	err := together(callers, func(caller int) error {
		for i := range 8 {
			key := (caller + i) % len(all)
			result, err := r.ask(r.t.Context(), all[key], 1)
			if err != nil {
				return err
			}
			if result.Allowed {
				granted[key].Add(1)
			}
		}
		return nil
	})
	if err != nil {
		r.fail("Allow returns an error: %w", err)
	}
	for key := range granted {
		r.fairly(all[key], rate, 1, granted[key].Load())
	}
}
