package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/shares"
)

// besidePart shows whether Go and Java are peers: callers that wait for the same
// permits should get shares that follow their numbers, in whichever language.
var besidePart = &part{
	name: "beside", set: setPage, measure: measureBeside,
	about: "how waiters of Go and of Java divide a limit that is too small for both",
}

// A besideResult is how callers divide a limit that is too small for them: Go
// and Java, Go alone, and processes of Go.
type besideResult struct {
	redisson  string // version
	scenarios []besideScenario
	prices    []besidePrice
	among     shares.Fairnesses
}

// A besideScenario is all runs of one scenario.
type besideScenario struct {
	shares.Scenario
	several shares.Several
}

// A besidePrice is what Go gets without any Java: with its default options, by
// which it would leave Java its share, and with WithGoOnly.
type besidePrice struct {
	shares.Scenario
	ready, only shares.Several
}

// The processes of Go that share a limit, and the callers of each: as many
// callers as in the larger scenarios beside Java.
const (
	processes        = 4
	callersOfProcess = 4
)

// besideSpans returns how long a run is measured, beside Java and among
// processes, and how often each is repeated: Redisson's timers tick at random
// moments, so one run says little.
func besideSpans(s *scope) (run, among time.Duration, times int) {
	return amount(s, 5*time.Second, 400*time.Millisecond), amount(s, 20*time.Second, 400*time.Millisecond),
		amount(s, 5, 2)
}

// measureBeside measures all scenarios.
func measureBeside(ctx context.Context, s *scope) (finding, error) {
	peer, err := s.peer(ctx)
	if err != nil {
		return finding{}, err
	}
	span, among, times := besideSpans(s)
	r := &besideResult{redisson: peer.Version()}
	for _, sc := range amount(s, shares.Scenarios, shares.Scenarios[:1]) {
		several, err := shares.Repeat(ctx, peer, sc, span, times)
		if err != nil {
			return finding{}, fmt.Errorf("%v: %w", sc, err)
		}
		r.scenarios = append(r.scenarios, besideScenario{sc, several})
		progress("beside: %v", sc)
	}
	for _, sc := range amount(s, shares.Alone, shares.Alone[:1]) {
		price, err := measurePrice(ctx, s, sc)
		if err != nil {
			return finding{}, fmt.Errorf("%v: %w", sc, err)
		}
		r.prices = append(r.prices, price)
	}
	crowd := shares.Crowd{Limit: shares.Among, Processes: processes, Callers: callersOfProcess}
	r.among, err = shares.RepeatProcesses(ctx, crowd, among, times)
	if err != nil {
		return finding{}, err
	}
	return finding{r.data(s), r.targets()}, nil
}

// measurePrice measures both at the same time, so that other work on the
// machine disturbs both alike.
func measurePrice(ctx context.Context, s *scope, sc shares.Scenario) (besidePrice, error) {
	p, only := besidePrice{Scenario: sc}, sc
	only.Options = []rratelimiter.Option{rratelimiter.WithGoOnly()}
	span, _, times := besideSpans(s)
	var both sync.WaitGroup
	var errReady, errOnly error
	both.Go(func() { p.ready, errReady = shares.Repeat(ctx, nil, sc, span, times) })
	both.Go(func() { p.only, errOnly = shares.Repeat(ctx, nil, only, span, times) })
	both.Wait()
	return p, errors.Join(errReady, errOnly)
}

// targets returns the same targets for all scenarios. The median of the runs
// must meet them.
func (r *besideResult) targets() (all []target) {
	// One target for the least used scenario: nine that are all met say no more.
	used := math.Inf(1)
	for _, one := range r.scenarios {
		got := min(one.several.Go().Median, one.several.Java().Median)
		what := fmt.Sprintf("%v: got by what was due, of the side that got less", one.Scenario)
		all = append(all, least("T9", what, got, shares.LeastRatio, ""))
		used = min(used, one.several.Used().Median)
	}
	return append(all,
		least("T9", "part of the limit that is used, in the scenario where that is least",
			used, shares.LeastUsed, ""),
		least("T9", fmt.Sprintf("%v, %d processes of Go: Jain's fairness index", shares.Among, processes),
			r.among.Index().Median, shares.LeastIndex, ""))
}

// A besideData is what the page shows of it.
type besideData struct {
	Redisson string // version
	Times    int    // runs of each scenario
	Timeout  string // of each call
	Span     string // of each run

	Rows   []besideRow
	Prices []priceRow

	// Processes of Go share Limit for the time Among, with so many Callers each.
	Processes, Callers int
	Limit, Among       string
	Index, AmongUsed   medianAndWorst // Jain's index, and the part that is used
}

// A medianAndWorst is a shares.Spread as the page prints it.
type medianAndWorst struct{ Median, Worst num }

// onPage makes one of a spread.
func onPage(s shares.Spread) medianAndWorst { return medianAndWorst{num(s.Median), num(s.Worst)} }

// A besideRow is one scenario beside Java.
type besideRow struct {
	Name           string
	Due, Got       num // of Java
	Java, Go, Used medianAndWorst
}

// A priceRow is one scenario without Java.
type priceRow struct {
	Name                string
	Possible            float64 // permits that the limit allows
	Ready, Only         float64 // permits granted: by default, and with WithGoOnly
	ReadyUsed, OnlyUsed medianAndWorst
}

// data returns the medians and the worst of the runs.
func (r *besideResult) data(s *scope) *besideData {
	span, among, times := besideSpans(s)
	d := &besideData{
		Redisson: r.redisson, Times: times, Processes: processes, Callers: callersOfProcess,
		Timeout: shares.Timeout.String(), Span: span.String(),
		Among: among.String(), Limit: shares.Among.String(),
		Index: onPage(r.among.Index()), AmongUsed: onPage(r.among.Used()),
	}
	for _, one := range r.scenarios {
		several := one.several
		got := median(several, func(r shares.Result) float64 { return r.Java.Got })
		d.Rows = append(d.Rows, besideRow{
			one.String(), num(several[0].Java.Due), num(got),
			onPage(several.Java()), onPage(several.Go()), onPage(several.Used()),
		})
	}
	granted := func(r shares.Result) float64 { return r.Go.Granted }
	for _, p := range r.prices {
		d.Prices = append(d.Prices, priceRow{
			p.String(), p.only[0].Possible, median(p.ready, granted), median(p.only, granted),
			onPage(p.ready.Used()), onPage(p.only.Used()),
		})
	}
	return d
}
