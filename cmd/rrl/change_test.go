package main

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestDelete(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	steps(t, server, "",
		step{"delete a b", 1, `"a": not there "b": not there`, ""},
		step{"set a 5 1h", 0, "set", ""},
		step{"set b 6 1m", 0, "set", ""},
		step{"acquire a -n 2", 0, "granted", ""},
		step{"delete a b", 2, "", `"a": 5 permits per 1h, OVERALL, 2 outstanding.` + "\n" +
			`"b": 6 permits per 1m, OVERALL, 0 outstanding.` + "\nThis is deleted"},
		step{"delete a b", 2, "", "rrl: nothing was done: it needs a yes, or --yes"},
		step{"try-set a 5 1h", 1, "not set", ""},
	)
	steps(t, server, "yes\n", step{"delete a", 0, `"a": deleted`, "2 outstanding"})
	steps(t, server, "", step{"delete a b --yes --json", 1,
		`{ "deleted": [ "b" ], "not_there": [ "a" ] }`, ""})
	if n := server.Admin().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// The question says what there is, also if it is no limiter.
func TestQuestions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx := t.Context()
	server.Admin().Set(ctx, "text", "of somebody else", 0)
	server.Admin().Set(ctx, "{left}:value", "3", 0)
	steps(t, server, "",
		step{"set own 5 1h --per-client", 0, "set", ""},
		step{"acquire own --id me -n 2", 0, "remaining 3 of 5", ""},
		step{"delete own", 2, "", "PER_CLIENT, outstanding permits of its clients not counted"},
		step{"delete own --id me", 2, "", `PER_CLIENT, 2 outstanding of client "me"`},
		step{"delete text", 2, "", `"text": a string, no limiter`},
		step{"delete left", 2, "", `"left": no rate is set, but keys are there`},
		step{"set own 6 1h --per-client --id me", 2, "", `2 outstanding of client "me"`},
		step{"set own 6 1h --per-client", 0, "set", ""}, // the permits of "me" stay counted
		step{"set text 6 1h", 2, "", `for "text": key text is a string, must be a hash`},
		step{"delete text left own --yes", 0, "deleted", ""},
	)
}

func TestRename(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	steps(t, server, "",
		step{"rename a b", 2, "", `no rate is set for "a"`},
		step{"set a 5 1h", 0, "set", ""},
		step{"acquire a -n 2", 0, "granted", ""},
		step{"rename a b", 0, `"a": it is "b" now`, ""},
		step{"acquire b", 0, "remaining 2 of 5", ""},
		step{"rename a b", 2, "", `no rate is set for "a"`}, // without a question
		step{"set a 9 1h", 0, "set", ""},
		step{"rename a b", 2, "", `"b": 5 permits per 1h, OVERALL, 3 outstanding.` + "\n" +
			`It is replaced by "a": 9 permits per 1h, OVERALL, 0 outstanding. Type yes`},
		step{"acquire b", 0, "remaining 1 of 5", ""},
		step{"rename a b --yes --json", 0, `{ "from": "a", "to": "b" }`, ""},
		step{"acquire b", 0, "remaining 8 of 9", ""},
	)
}

func TestRepair(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx := t.Context()
	steps(t, server, "",
		step{"repair api", 2, "", `no rate is set for "api"`},
		step{"set api 5 1h", 0, "set", ""},
		step{"acquire api -n 2", 0, "granted", ""},
		step{"repair api", 0, `"api": 1 record, 0 rewritten, 0 dropped; the value was right`, ""},
	)
	server.Admin().IncrBy(ctx, "{api}:value", 2)
	server.Admin().ZAdd(ctx, "{api}:permits", redis.Z{Score: 9e12, Member: "no record"})
	steps(t, server, "", step{"repair api --json", 0,
		`"records": 1, "rewritten": 0, "dropped": 1, "drift": `, ""})
	has(t, server, "api", "3")
	server.Admin().DecrBy(ctx, "{api}:value", 2)
	steps(t, server, "", step{"repair api", 0, "the value was too low by 2", ""})
	server.Admin().IncrBy(ctx, "{api}:value", 1)
	steps(t, server, "", step{"repair api", 0, "the value was too high by 1", ""})
	has(t, server, "api", "3")
	steps(t, server, "",
		step{"set own 5 1h --per-client", 0, "set", ""},
		step{"repair own", 0, "the value was right", `"own" is PER_CLIENT: without --id`},
	)
}

// All of it works on a cluster.
func TestChangesOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for _, s := range []step{
		{"set {a}1 5 1h", 0, "set", ""},
		{"acquire {a}1", 0, "granted", ""},
		{"rename {a}1 {a}2", 0, "now", ""},
		{"release {a}2 1", 0, "given back", ""},
		{"repair {a}2", 0, "the value was right", ""},
		{"try-set b 5 1h", 0, "set", ""},
		{"update b 6 1h", 0, "set", ""},
		{"delete {a}2 b --yes", 0, "deleted", ""},
	} {
		args := append([]string{"--redis", "redis+cluster://" + cluster.Addrs[0]}, strings.Fields(s.args)...)
		code, stdout, stderr := rrl(t.Context(), args...)
		if code != s.code || !says(stdout, s.stdout) || !says(stderr, s.stderr) {
			t.Errorf("rrl %s: code %d, printed\n%s\n%s", s.args, code, stdout, stderr)
		}
	}
}
