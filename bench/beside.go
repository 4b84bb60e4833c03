package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/shares"
)

// A besideResult is how callers divide a limit that is too small for them: Go
// and Java, Go alone, and processes of Go.
type besideResult struct {
	redisson  string // version
	scenarios []besideScenario
	prices    []besidePrice
	among     shares.Fairnesses
}

type besideScenario struct {
	shares.Scenario
	several shares.Several
}

// A besidePrice is what Go gets without any Java: with the options it has by
// default, by which it would leave Java its share, and with WithGoOnly.
type besidePrice struct {
	shares.Scenario
	ready, only shares.Several
}

// Processes of Go that share a limit, and the callers of each.
const (
	processes        = 4
	callersOfProcess = 4
)

func measureBeside(ctx context.Context, s *scope, pl plan) (*besideResult, error) {
	peer, err := javapeer.Start(ctx, "")
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() { _ = peer.Close() }) // it has answered what we wanted to know
	r := &besideResult{redisson: peer.Version()}
	for _, sc := range pl.scenarios {
		several, err := shares.Repeat(ctx, peer, sc, pl.shared, pl.connects)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", sc, err)
		}
		r.scenarios = append(r.scenarios, besideScenario{sc, several})
		fmt.Fprintf(os.Stderr, "beside: %v\n", sc)
	}
	for _, sc := range pl.alone {
		price, err := measurePrice(ctx, sc, pl)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", sc, err)
		}
		r.prices = append(r.prices, price)
	}
	crowd := shares.Crowd{Limit: shares.Among, Processes: processes, Callers: callersOfProcess}
	r.among, err = shares.RepeatProcesses(ctx, crowd, pl.among, pl.connects)
	return r, err
}

// measurePrice runs both at the same time, so that what else the machine does
// meets both.
func measurePrice(ctx context.Context, sc shares.Scenario, pl plan) (besidePrice, error) {
	p, only := besidePrice{Scenario: sc}, sc
	only.Options = []rratelimiter.Option{rratelimiter.WithGoOnly()}
	var both sync.WaitGroup
	var errReady, errOnly error
	both.Go(func() { p.ready, errReady = shares.Repeat(ctx, nil, sc, pl.shared, pl.connects) })
	both.Go(func() { p.only, errOnly = shares.Repeat(ctx, nil, only, pl.shared, pl.connects) })
	both.Wait()
	return p, errors.Join(errReady, errOnly)
}

// targets are the same for all scenarios, each met by the median of its runs.
func (r *besideResult) targets() (all []target) {
	used := math.Inf(1)
	for _, one := range r.scenarios {
		got := min(one.several.Go().Median, one.several.Java().Median)
		all = append(all, least("T9", fmt.Sprintf("%v: got by what was due, of the side that got less", one.Scenario),
			got, shares.LeastRatio, ""))
		used = min(used, one.several.Used().Median)
	}
	return append(all,
		least("T9", "part of the limit that is used, in the scenario where that is least", used, shares.LeastUsed, ""),
		least("T9", fmt.Sprintf("%v, %d processes of Go: Jain's fairness index", shares.Among, processes),
			r.among.Index().Median, shares.LeastIndex, ""))
}

// A besideView is what the template sees of it.
type besideView struct {
	Redisson                     string
	Connects, Processes, Callers int
	Timeout, Span, Among         time.Duration
	Rows                         []besideRow
	Prices                       []priceRow
	Limit                        shares.Limit
	Index, AmongUsed             shares.Spread
}

type besideRow struct {
	Name           string
	Due, Got       float64
	Java, Go, Used shares.Spread
}

type priceRow struct {
	Name                  string
	Possible, Ready, Only float64 // permits
	ReadyUsed, OnlyUsed   shares.Spread
}

func (r *besideResult) view(pl plan) *besideView {
	v := &besideView{
		Redisson: r.redisson, Connects: pl.connects, Processes: processes, Callers: callersOfProcess,
		Timeout: shares.Timeout, Span: pl.shared, Among: pl.among, Limit: shares.Among,
		Index: r.among.Index(), AmongUsed: r.among.Used(),
	}
	for _, one := range r.scenarios {
		s := one.several
		v.Rows = append(v.Rows, besideRow{
			one.String(), s[0].Java.Due, median(s, func(r shares.Result) float64 { return r.Java.Got }), s.Java(), s.Go(), s.Used(),
		})
	}
	granted := func(r shares.Result) float64 { return r.Go.Granted }
	for _, p := range r.prices {
		v.Prices = append(v.Prices, priceRow{
			p.String(), p.only[0].Possible, median(p.ready, granted), median(p.only, granted), p.ready.Used(), p.only.Used(),
		})
	}
	return v
}
