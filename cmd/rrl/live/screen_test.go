package live

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/golden"
	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/picture"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// busy returns a screen of three limiters: one that Go and Java use, one that has lost permits, one with a
// pair for each client.
func busy(t *testing.T) *scenario {
	s := newScenario(t, "api", "emails", "uploads")
	s.set("api", rratelimiter.Overall, 100, time.Second)
	s.set("emails", rratelimiter.Overall, 500, time.Hour, rratelimiter.WithKeepAlive(24*time.Hour))
	s.set("uploads", rratelimiter.PerClient, 20, time.Minute)
	s.goTakes("uploads", 1)
	s.goTakes("emails", 140)
	s.rdb.DecrBy(t.Context(), "{emails}:value", 40) // as a request does that Java sends twice
	s.run(42, func(tenth int) {
		s.goTakes("api", []int{2, 4, 6, 8, 9, 11, 12, 8, 5, 3}[tenth/20%10])
		if tenth%3 == 0 {
			s.javaTakes("api", 6)
		}
		if tenth%40 == 7 {
			s.goTakes("uploads", 1)
		}
	})
	return s
}

// screens are the screens of watch, by the name of the golden file.
var screens = map[string]func(t *testing.T) *scenario{
	"start": func(t *testing.T) *scenario { return newScenario(t, "api", "other") },
	"not-there": func(t *testing.T) *scenario {
		s := newScenario(t, "api", "later", "half")
		s.set("api", rratelimiter.Overall, 5, time.Minute)
		s.m.HSet("half", "rate", "5")
		s.run(3, func(tenth int) {
			if tenth == 15 {
				s.rdb.Del(t.Context(), "api")
				s.set("later", rratelimiter.Overall, 7, 90*time.Minute)
			}
		})
		return s
	},
	"redis-back": func(t *testing.T) *scenario {
		s := newScenario(t, "api")
		s.set("api", rratelimiter.Overall, 100, 10*time.Second)
		s.run(15, func(tenth int) {
			s.m.SetError("")
			s.goTakes("api", tenth%2)
			if tenth > 50 && tenth < 90 {
				s.m.SetError("ERR no")
			}
		})
		return s
	},
	"never-there": func(t *testing.T) *scenario {
		s := newScenario(t, "api")
		s.m.SetError("NOPERM User \x1b[31mred\x1b[m has no permissions")
		s.run(1, nil)
		return s
	},
	"clients": func(t *testing.T) *scenario {
		s := newScenario(t, "uploads", "nobody")
		s.set("uploads", rratelimiter.PerClient, 20, time.Minute)
		s.set("nobody", rratelimiter.PerClient, 20, time.Minute)
		for i := range 20 {
			s.m.Set("{uploads}:value:client-"+string(rune('a'+i)), "20")
		}
		s.run(1, nil)
		s.key("end")
		return s
	},
	"debt": func(t *testing.T) *scenario {
		s := newScenario(t, "api", "lowered")
		s.set("api", rratelimiter.Overall, 10, time.Minute)
		s.set("lowered", rratelimiter.Overall, 100, time.Hour)
		s.goTakes("lowered", 50)
		s.set("lowered", rratelimiter.Overall, 20, time.Hour, rratelimiter.WithKeepState())
		s.run(2, func(tenth int) {
			if tenth == 5 {
				redistest.Must(s.gos["api"].RateLimiter("api").Charge(t.Context(), 34))(t)
			}
		})
		if screen := s.draw(); !strings.Contains(screen, red.Styled("24 in debt, paid in 58s")) {
			t.Errorf("no debt in red in\n%s", screen)
		}
		return s
	},
	"many-records": func(t *testing.T) *scenario {
		s := newScenario(t, "api")
		s.set("api", rratelimiter.Overall, 5000, time.Hour)
		s.run(2, func(int) { s.goTakes("api", 80) })
		return s
	},
	"hostile": func(t *testing.T) *scenario {
		names := []string{
			"\x1b[31mred\x1b]0;title\a", "two\nlines\r\tand more", strings.Repeat("漢字", 40),
			"e\u0301\u202Egnp.exe", "\xff\xfe", "{a}:permits{", "👩\u200d👩\u200d👧 family", "",
		}
		s := newScenario(t, names...)
		s.set(names[0], rratelimiter.PerClient, 3, time.Second)
		s.w.Targets[0].ID = "\x1b[2J\n"
		for _, name := range names[1:6] {
			s.set(name, rratelimiter.Overall, 3, time.Second)
		}
		s.run(1, nil)
		s.width, s.height = 50, 40
		return s
	},
	"wrong": func(t *testing.T) *scenario {
		s := newScenario(t, "text", "zero", "word", "left")
		s.m.Set("text", "a string")
		s.m.HSet("zero", "rate", "0", "interval", "-5", "type", "0")
		s.m.HSet("word", "rate", "many", "interval", "1000", "type", "0")
		s.set("left", rratelimiter.Overall, 5, time.Second)
		s.m.Set("{left}:value", "-3")
		s.run(1, nil)
		return s
	},
}

func TestScreens(t *testing.T) {
	for name, play := range screens {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t).golden(name) })
		})
	}
}

// golden compares the screen with a golden file.
func (s *scenario) golden(name string) {
	s.t.Helper()
	screen := s.draw()
	s.fits(screen)
	golden.Check(s.t, "testdata/"+name+".golden", ansi.Strip(screen)+"\n")
}

// The same limiters on terminals of other sizes, as a page, as a picture, and while Redis is away.
func TestBusyScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := busy(t)
		const label = "rrl watch on a terminal: three limiters with their gauges"
		golden.Check(t, "../../../docs/watch.svg", picture.SVG(s.draw(), 80, 24, label))
		s.width = 40
		s.golden("40x24")
		s.width, s.height = 160, 30
		s.golden("160x30")
		s.width, s.height = 60, 10
		for _, key := range []string{"pgdown", "j", "k", "down"} {
			s.key(key)
		}
		s.golden("scrolled")
		s.everySize()
		s.m.SetError("LOADING Redis is loading the dataset in memory")
		s.run(5, nil)
		s.width, s.height = 80, 24
		s.golden("redis-away")
		s.everySize()
	})
}

// everySize checks that the screen fits terminals of many sizes, whatever key is pressed.
func (s *scenario) everySize() {
	for s.width = 1; s.width < 160; s.width += 23 {
		for s.height = 1; s.height < 40; s.height += 12 {
			for _, key := range []string{"end", "up", "pgup", "G", "pgdown", "j", "home", "k", "x", "g"} {
				s.key(key)
				s.fits(s.draw())
			}
		}
	}
}

// fits checks that a screen fits the terminal, and has no terminal codes other than colours.
func (s *scenario) fits(screen string) {
	s.t.Helper()
	lines := strings.Split(screen, "\n")
	if len(lines) > s.height {
		s.t.Errorf("%d lines on a screen of %d", len(lines), s.height)
	}
	for _, line := range lines {
		if ansi.StringWidth(line) > s.width {
			s.t.Errorf("%d columns on a screen of %d: %q", ansi.StringWidth(line), s.width, line)
		}
		for rest := line; ; {
			_, after, found := strings.Cut(rest, "\x1b")
			if !found {
				break
			}
			end := strings.IndexByte(after, 'm')
			if !strings.HasPrefix(after, "[") || end < 0 || strings.Trim(after[1:end], "0123456789;") != "" {
				s.t.Fatalf("an escape sequence that is no colour: %q", line)
			}
			rest = after[end+1:]
		}
		if strings.ContainsAny(line, "\r\t\a\b") {
			s.t.Errorf("a control character: %q", line)
		}
	}
}
