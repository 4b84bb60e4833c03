package redistest

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Rights returns the rights that a page of the docs gives to a user: those after the
// name in the ACL SETUSER with this number, counted from 1.
func Rights(t TB, page, user string, which int) []string {
	t.Helper()
	rules := strings.Split(read(t, page), "> ACL SETUSER "+user+" ")
	if len(rules) <= which {
		t.Fatalf("redistest: %s has %d rules for %s", page, len(rules)-1, user)
	}
	rule, _, _ := strings.Cut(rules[which], "```")
	return strings.Fields(rule)
}

// Listed returns the rights that a page lists after some words, up to the end of the sentence.
func Listed(t TB, page, words string) (rights []string) {
	t.Helper()
	_, list, found := strings.Cut(read(t, page), words)
	list, _, _ = strings.Cut(list, ".")
	for right := range strings.FieldsSeq(list) {
		rights = append(rights, strings.Trim(right, "`"))
	}
	if !found || len(rights) == 0 {
		t.Fatalf("redistest: %s does not say %q", page, words)
	}
	return rights
}

// Without returns rights except some.
func Without(rights []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return slices.Contains(some, r) })
}

func read(t TB, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	check(t, err)
	return string(text)
}

// Allow gives a user these rights and no others, on some servers.
func Allow(t TB, user string, rights []string, servers ...*redis.Client) {
	t.Helper()
	args := []any{"ACL", "SETUSER", user, "reset"}
	for _, right := range rights {
		args = append(args, right)
	}
	for _, rdb := range servers {
		if err := rdb.Do(context.Background(), args...).Err(); err != nil {
			t.Fatalf("redistest: rights of %s: %v", user, err)
		}
	}
}

// Denied returns the commands, keys and channels that some servers have denied since it
// was last called.
func Denied(t TB, servers ...*redis.Client) (denied []string) {
	t.Helper()
	for _, rdb := range servers {
		entries, err := rdb.ACLLog(context.Background(), 100).Result()
		if err == nil {
			err = rdb.Do(context.Background(), "ACL", "LOG", "RESET").Err()
		}
		if err != nil {
			t.Fatalf("redistest: what was denied: %v", err)
		}
		for _, e := range entries {
			denied = append(denied, e.Object)
		}
	}
	slices.Sort(denied)
	return slices.Compact(denied)
}
