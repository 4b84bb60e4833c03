package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// showKeys prints the three keys of the limiter as redis-cli would, with a remark
// beside each line that needs one.
func showKeys(ctx context.Context, s *server, t *timeline) error {
	p, keys := t.page, wire.KeysOf(s.name, "")
	shared := keys.Pairs[rratelimiter.Overall]
	p.printf("\nAt %.3f Redis holds, for Go and Java alike:\n\n", time.Since(t.start).Seconds())
	for _, look := range []struct {
		remark func(key, value string) string
		args   []any
	}{
		{remarkOnField, []any{"HGETALL", keys.Hash}},
		{remarkOnValue, []any{"GET", shared.Value}},
		{t.remarkOnRecord, []any{"ZRANGE", shared.Permits, 0, -1, "WITHSCORES"}},
	} {
		found, err := s.rdb.Do(ctx, look.args...).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		p.printf("> %s", fmt.Sprintln(look.args...))
		p.beside(reply(found), remarks(found, look.remark))
	}
	return nil
}

// remarks returns a remark for each line of a reply. An array has pairs; the remark
// on a pair stands beside its second item, for the first may be a long record.
func remarks(found any, remark func(key, value string) string) []string {
	items, ok := found.([]any)
	if !ok {
		return []string{remark("", fmt.Sprint(found))}
	}
	lines := make([]string, len(items))
	for i := 1; i < len(items); i += 2 {
		lines[i] = remark(fmt.Sprint(items[i-1]), fmt.Sprint(items[i]))
	}
	return lines
}

// remarkColumn is where remarks begin, unless the line is longer. It leaves room
// for the time of a record, the longest of the short lines.
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

// remarkOnField says what a field of the hash means.
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
	case field == "longest":
		return "an interval that was in use lately, in ms; until"
	case strings.HasPrefix(field, "session:"):
		return remarkOnSession(value)
	}
	return ""
}

// remarkOnSession says what the last request of a Client was, by its number and
// permits. The field holds two times, too: that of the request and that of its
// records.
func remarkOnSession(value string) string {
	var when, number, permits int64
	if _, err := fmt.Sscanf(value, "%d %d %d", &number, &when, &permits); err != nil {
		return "no form that Go writes"
	}
	did := "took " + words.Count(permits, "permit")
	if permits < 0 {
		did = "gave back " + words.Count(-permits, "permit")
	}
	return fmt.Sprintf("request %d %s", number, did)
}

func remarkOnValue(_, _ string) string { return "permits left at the last grant" }

// remarkOnRecord says what a record means: a member of the sorted set, and its
// score.
func (t *timeline) remarkOnRecord(member, score string) string {
	permits, err := wire.Permits(member)
	if err != nil {
		return err.Error()
	}
	millis, err := strconv.ParseInt(score, 10, 64)
	if err != nil {
		return err.Error()
	}
	taken := time.UnixMilli(millis).Sub(t.epoch)
	return fmt.Sprintf("%s, taken at %.3f, back at %.3f",
		words.Count(permits, "permit"), taken.Seconds(), (taken + interval).Seconds())
}
