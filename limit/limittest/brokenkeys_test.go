package limittest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A brokenKeys is a Keyed that a check must reject.
type brokenKeys struct {
	what, text string
	keyed      func(t *testing.T, rate int64, interval time.Duration) limit.Keyed
}

// changedKeys is a Keyed that is changed.
func changedKeys(what, text string, change func(s *keyed)) brokenKeys {
	return brokenKeys{what, text, func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
		s := newKeyed(t, rate, interval)
		change(s)
		return s
	}}
}

// takesFor is a Keyed that confuses keys.
func takesFor(what string, breaks func(key string) string) brokenKeys {
	return changedKeys(what, "limit of another", func(s *keyed) { s.breaks = breaks })
}

// brokenKeyed are grouped by the check that must reject them.
var brokenKeyed = map[string][]brokenKeys{
	"keys do not know of each other": {
		changedKeys("one limit", "refuses", func(s *keyed) {
			s.breaks = func(string) string { return "one" }
		}),
	},
	"an empty key is an ErrInvalidArgument": {
		{"a limit", "error <nil>", func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
			s := newKeyed(t, rate, interval)
			return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
				return s.Allow(ctx, "key:"+key, n)
			})
		}},
	},
	"a strange key is refused or has a limit of its own": {
		takesFor("trims", strings.TrimSpace), takesFor("folds", strings.ToLower),
		takesFor("cuts", func(key string) string { return key[:min(len(key), 256)] }),
		takesFor("ends at NUL", func(key string) string { return strings.Split(key, "\x00")[0] }),
		takesFor("the hash tag", func(key string) string {
			_, tag, _ := strings.Cut(key, "{")
			if tag, _, ok := strings.Cut(tag, "}"); ok && tag != "" {
				return tag
			}
			return key
		}),
		{"spoils a key", "the key", func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
			s, spoilt := newKeyed(t, rate, interval), false
			return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
				spoilt = spoilt || key == "a:value"
				if spoilt && key == "a" {
					return limit.Result{}, errors.New("not a hash")
				}
				return s.Allow(ctx, key, n)
			})
		}},
		takesFor("other bytes", func(key string) string { return strings.ToValidUTF8(key, "\ufffd") }),
		changedKeys("panics", "a panic", func(s *keyed) {
			s.breaks = func(key string) string { return key[:1] + key[1:2] }
		}),
		{"another error", "want a limit or",
			func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
				s := newKeyed(t, rate, interval)
				return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
					if strings.Contains(key, "\n") {
						return limit.Result{}, errors.New("a syntax error")
					}
					return s.Allow(ctx, key, n)
				})
			}},
	},
	"many keys have a limit each": {
		changedKeys("forgets", "Remaining of key", func(s *keyed) { s.most = 100 }),
	},
	"keys that were idle are full and not fuller": {
		{"never forgets", "refuses", func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
			return newKeyed(t, rate, 100*interval)
		}},
	},
	"many callers of some keys at once get the rate of each": {
		{"makes a key twice", "together", func(_ *testing.T, rate int64, interval time.Duration) limit.Keyed {
			var all sync.Map
			return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
				m, ok := all.Load(key)
				if !ok {
					time.Sleep(time.Millisecond)
					m = newMemory(SlidingLog, rate, interval)
					all.Store(key, m)
				}
				return m.(*memory).Allow(ctx, n)
			})
		}},
	},
}
