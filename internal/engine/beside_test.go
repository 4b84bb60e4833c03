package engine

import (
	"testing"

	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// The circuit of a limiter of package limit is that of the server which has its key: no mapper and no
// braces in the key of a visitor lead to another.
func TestBesideIsInTheSlotOfTheKey(t *testing.T) {
	plain := &wire.Layouts[0]
	e := New(Config{Config: request.Config{
		MapName: func(string) string { return "other" }, Plain: plain, Layout: plain.ForClient(),
	}})
	defer e.Close()
	for _, name := range []string{"n", "n:a", "n:{u41}", "n:{", "n:}{x}", "{n}:a", "{{n}}", "n:{}"} {
		if got, want := wire.Slot(e.Beside(name).Hash), wire.Slot("{"+name+"}:tokenbucket"); got != want {
			t.Errorf("%s: slot %d, want %d", name, got, want)
		}
	}
}
