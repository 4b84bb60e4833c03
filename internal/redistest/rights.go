package redistest

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Rights returns the rights that a page of the docs gives to a user: what follows the
// name in one of its ACL SETUSER, counted from 1.
func Rights(t TB, page, user string, which int) []string {
	t.Helper()
	rules := strings.Split(read(t, page), "> ACL SETUSER "+user+" ")
	if len(rules) <= which {
		t.Fatalf("redistest: %s has %d rules for %s", page, len(rules)-1, user)
	}
	rule, _, _ := strings.Cut(rules[which], "```")
	return strings.Fields(rule)
}

// Needs returns the rows of the table of a page that says what fails without each right.
func Needs(t TB, page string) map[string]string {
	t.Helper()
	_, table, _ := strings.Cut(read(t, page), "| without one of | fails |")
	fails := map[string]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "/"), "|")
		if len(cells) != 4 {
			if len(fails) > 0 {
				break
			}
			continue
		}
		for i, right := range strings.Split(cells[1], "`") {
			if i%2 == 1 {
				fails[strings.ReplaceAll(right, "/", "|")] = strings.TrimSpace(cells[2])
			}
		}
	}
	return fails
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
