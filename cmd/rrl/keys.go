package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// showKeys prints the three keys of the limiter as redis-cli would, and beside
// them what they say.
func showKeys(ctx context.Context, s *server, t *timeline) error {
	p := t.page
	p.printf("\nAt %.3f Redis holds, for Go and Java alike:\n\n", time.Since(t.start).Seconds())
	for _, look := range []struct {
		remark func(key, value string) string
		args   []any
	}{
		{remarkOnField, []any{"HGETALL", s.name}},
		{remarkOnValue, []any{"GET", "{" + s.name + "}:value"}},
		{t.remarkOnRecord, []any{"ZRANGE", "{" + s.name + "}:permits", 0, -1, "WITHSCORES"}},
	} {
		answer, err := s.rdb.Do(ctx, look.args...).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		p.printf("> %s", fmt.Sprintln(look.args...))
		p.beside(reply(answer), remarks(answer, look.remark))
	}
	return nil
}

// remarks returns a remark for each line of a reply. Arrays are pairs, and the
// remark stands beside the second: the first may be as long as it likes.
func remarks(answer any, remark func(key, value string) string) []string {
	items, ok := answer.([]any)
	if !ok {
		return []string{remark("", fmt.Sprint(answer))}
	}
	lines := make([]string, len(items))
	for i := 1; i < len(items); i += 2 {
		lines[i] = remark(fmt.Sprint(items[i-1]), fmt.Sprint(items[i]))
	}
	return lines
}

// remarkColumn is where remarks begin, if what they are about is not longer.
const remarkColumn = 24

// beside prints lines with the remarks beside them.
func (p *page) beside(lines string, remarks []string) {
	i := 0
	for line := range strings.Lines(lines) {
		line = strings.TrimSuffix(line, "\n")
		if remarks[i] != "" {
			line = fmt.Sprintf("%-*s  %s", remarkColumn, line, p.paint(faint, "<- "+remarks[i]))
		}
		p.printf("%s\n", line)
		i++
	}
}

func remarkOnField(field, value string) string {
	switch {
	case field == "rate":
		return "permits"
	case field == "interval":
		return "ms"
	case field == "type" && value == "0":
		return rratelimiter.Overall.String()
	case field == "keepAliveTime":
		return "ms to live after each use; 0: off"
	case strings.HasPrefix(field, "session:"):
		return remarkOnSession(value)
	}
	return ""
}

// remarkOnSession says what the last request of a Client was, by its number and
// permits. Beside them are its time and that of their records.
func remarkOnSession(value string) string {
	var when, number, permits int64
	if _, err := fmt.Sscanf(value, "%d %d %d", &number, &when, &permits); err != nil {
		return "no form that Go writes"
	}
	did := "took " + plural(permits, "permit")
	if permits < 0 {
		did = "gave back " + plural(-permits, "permit")
	}
	return fmt.Sprintf("request %d %s", number, did)
}

func remarkOnValue(_, _ string) string { return "permits left at the last grant" }

// remarkOnRecord says what a member of the sorted set and its score mean.
func (t *timeline) remarkOnRecord(member, score string) string {
	permits, err := rratelimiter.RecordPermits(member)
	if err != nil {
		return err.Error()
	}
	millis, err := strconv.ParseInt(score, 10, 64)
	if err != nil {
		return err.Error()
	}
	taken := time.UnixMilli(millis).Sub(t.epoch)
	return fmt.Sprintf("%s, taken at %.3f, back at %.3f",
		plural(permits, "permit"), taken.Seconds(), (taken + interval).Seconds())
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
