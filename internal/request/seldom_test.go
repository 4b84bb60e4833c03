package request

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Rare states of a limiter of 10 an hour, on miniredis.
func TestWhatSeldomHappens(t *testing.T) {
	for _, tc := range []struct {
		name    string
		does    func(p *seldom) error
		records []int64 // of the limiter then, from the oldest on
	}{
		{"the name of a record is taken", func(p *seldom) error {
			req := p.Acquire([]Run{{2, 1}}, nil, Options{})
			p.writes(req.records.(string), 0)
			_, err := req.Send(p.t.Context())
			return err
		}, []int64{2, 2}},
		{"the name of a second record is taken: the first one does not stay", func(p *seldom) error {
			setRate(p.t, p.Target, wire.Overall, 1<<40, time.Hour)
			req := p.Acquire([]Run{{2 * wire.MaxPermits, 1}}, nil, Options{})
			both := req.records.(string)
			p.writes(both[len(both)/2:], -3)
			_, err := req.Send(p.t.Context())
			return err
		}, []int64{wire.MaxPermits, wire.MaxPermits, wire.MaxPermits}},
		{"the name of a Group's record is taken", func(p *seldom) error {
			g := Take([]*Target{p.Target, p.other}, []int64{2, 1})
			g.Reserve(0)
			g.Identify(p.source.NewSession())
			p.writes(g.reserved[0], 0)
			_, err := g.Send(p.t.Context())
			return err
		}, []int64{2, 2}},
		{"the record of a withdrawal is gone: own older ones go first", func(p *seldom) error {
			p.writes(string(wire.Layouts[wire.Bc0I16].AppendAll(nil, 4)), -3)
			p.writes(p.NewRecord(3), -2)
			req := p.Acquire([]Run{{2, 1}}, nil, Options{})
			if _, err := req.Send(p.t.Context()); err != nil {
				return err
			}
			p.removes(req.records.(string))
			_, err := p.Withdraw(req.All()).Send(p.t.Context())
			return err
		}, []int64{4, 1}},
		{"the type is set back before the keys of the other one are removed", func(p *seldom) error {
			p.writes(p.NewRecord(4), 0)
			_, _, err := p.runOn(p.t.Context(), wire.Overall, newCall(clearScript, argumentsOf()))
			return err
		}, []int64{4}},
		{"a new name is mapped to the same key", func(p *seldom) error {
			p.writes(p.NewRecord(4), 0)
			p.source.MapName = func(string) string { return "name" }
			_, err := p.Rename(p.t.Context(), p.source.limiter("new"))
			return err
		}, []int64{4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rdb := redistest.MiniClient(t, redistest.Mini(t))
			e := newSource(rdb)
			p := &seldom{t, e.limiter("name"), e.limiter("other"), rdb}
			setRate(t, p.Target, wire.Overall, 10, time.Hour)
			setRate(t, p.other, wire.Overall, 10, time.Hour)
			redistest.NoError(t, tc.does(p))
			var records []int64
			for _, record := range rdb.ZRange(t.Context(), p.permits(), 0, -1).Val() {
				n, _ := wire.Permits(record)
				records = append(records, n)
			}
			if !slices.Equal(records, tc.records) {
				t.Errorf("records of %v permits, want %v", records, tc.records)
			}
		})
	}
}

// A seldom is a limiter in such a case, and another one.
type seldom struct {
	t *testing.T
	*Target
	other *Target
	rdb   *redis.Client
}

func (p *seldom) permits() string { return p.Keys().Pairs[wire.Overall].Permits }

// writes adds a record, some ms from now.
func (p *seldom) writes(record string, ms int64) {
	at := redis.Z{Score: float64(time.Now().UnixMilli() + ms), Member: record}
	redistest.NoError(p.t, p.rdb.ZAdd(p.t.Context(), p.permits(), at).Err())
}

// removes removes a record.
func (p *seldom) removes(record string) {
	redistest.NoError(p.t, p.rdb.ZRem(p.t.Context(), p.permits(), record).Err())
}
