package shares

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// environment is the variable that gives a process its work.
const environment = "RRATELIMITER_SHARES_WORK"

// work describes the work of a process: its callers, in one Client, acquire permits
// of the limiter called Name.
type work struct {
	Addr, Name        string
	Callers           int
	Duration, Timeout time.Duration
	Leased            bool
}

// A Fairness is what processes got.
type Fairness struct {
	Granted  []float64     // permits of each
	Possible float64       // permits
	Empty    int           // seconds of a process in which it was granted nothing
	Worst    float64       // Jain's index of the two seconds in which it was least
	Longest  time.Duration // wait of a caller
}

// Index returns Jain's index of what they got.
func (f Fairness) Index() float64 { return Index(f.Granted) }

// Used returns the part of the limit that was used.
func (f Fairness) Used() (used float64) {
	for _, granted := range f.Granted {
		used += granted / f.Possible
	}
	return used
}

// Fairnesses are the results of several runs.
type Fairnesses []Fairness

// Index returns the spread of Jain's index.
func (f Fairnesses) Index() Spread { return spread(f, Fairness.Index) }

// Worst returns the spread of Jain's index in two seconds.
func (f Fairnesses) Worst() Spread { return spread(f, func(f Fairness) float64 { return f.Worst }) }

// Used returns the spread of the part of the limit that was used.
func (f Fairnesses) Used() Spread { return spread(f, Fairness.Used) }

// A Crowd is processes of Go that share a limit, each with so many callers in
// one Client.
type Crowd struct {
	Limit
	Processes, Callers int
	Timeout            time.Duration // of each call; 0 for the usual one
	Leased             bool          // they take leases
}

// RepeatProcesses calls Processes n times, side by side.
func RepeatProcesses(ctx context.Context, crowd Crowd, span time.Duration, n int) (Fairnesses, error) {
	return sideBySide(n, func() (Fairness, error) { return Processes(ctx, crowd, span) })
}

// Main does the work of a process that Processes has started, and exits. In any
// other process it does nothing. A program that calls Processes calls it first.
func Main() {
	text, ok := os.LookupEnv(environment)
	if !ok {
		return
	}
	if err := perform(text, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "shares: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// perform prints that it is ready, waits for a line, does the work, and prints
// the times of its grants and how long they were waited for, in µs.
func perform(text string, in io.Reader, out io.Writer) error {
	var w work
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return err
	}
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: w.Addr})
	defer func() { _ = rdb.Close() }()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return err // the parent has ended
	}
	side := Side{Clients: 1, Callers: w.Callers, Permits: 1, Timeout: w.Timeout}
	callers := goSide{Side: side, clients: []redis.UniversalClient{rdb}}
	if w.Leased {
		callers.options = Leases
	}
	grants, err := callers.hammer(ctx, w.Name, w.Duration)
	if err != nil {
		return err
	}
	moments := make([][2]int64, len(grants))
	for i, g := range grants {
		moments[i] = [...]int64{g.at.UnixMicro(), g.waited.Microseconds()}
	}
	return json.NewEncoder(out).Encode(moments)
}

// Processes lets processes of Go share a limit, and measures for a span how much
// each gets. They run the program that calls it, which must begin with Main.
func Processes(ctx context.Context, crowd Crowd, span time.Duration) (f Fairness, err error) {
	var s redistest.Scope
	defer func() { s.End(recover(), &err) }()
	server := redistest.Start(&s)
	name := redistest.Name(&s)
	if err := setRate(ctx, server, name, crowd.Limit); err != nil {
		return f, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends processes that an error leaves behind
	n := crowd.Processes
	processes, errs := make([]*process, n), make([]error, n)
	f = Fairness{Granted: make([]float64, n), Possible: crowd.possible(span)}
	w := work{server.Addr, name, crowd.Callers, settle + span + tail, crowd.Timeout, crowd.Leased}
	for i := range processes {
		if processes[i], err = start(ctx, w); err != nil {
			return f, err
		}
		s.Cleanup(processes[i].end)
	}
	measured, _ := newWindow(span)
	grants := make([][]grant, n)
	var all sync.WaitGroup
	for i, p := range processes {
		all.Go(func() {
			grants[i], errs[i] = p.work()
			f.Granted[i] = measured.count(grants[i], crowd.Interval)
		})
	}
	all.Wait()
	f.look(measured, grants)
	return f, errors.Join(errs...)
}

// look notes what processes got from second to second of a window.
func (f *Fairness) look(measured window, grants [][]grant) {
	f.Worst = 1
	for from := measured.from; !from.Add(2 * time.Second).After(measured.to); from = from.Add(time.Second) {
		got := make([]float64, len(grants))
		for i := range grants {
			var first, both float64
			for _, g := range grants[i] {
				switch at := g.at.Sub(from); {
				case at < 0 || at >= 2*time.Second:
				case at < time.Second:
					first++
					fallthrough
				default:
					both++
					f.Longest = max(f.Longest, g.waited)
				}
			}
			if got[i] = both; first == 0 {
				f.Empty++
			}
		}
		f.Worst = min(f.Worst, Index(got))
	}
}

// A process is one in which Main works.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
}

// start starts a process and returns when it is ready.
func start(ctx context.Context, w work) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, program)}
	p.cmd.Env = append(os.Environ(), environment+"="+string(text))
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = bufio.NewReader(stdout)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if line, _ := p.stdout.ReadString('\n'); line != "ready\n" {
		p.end()
		return nil, fmt.Errorf("shares: a process is not ready but says %q and %q", line, &p.stderr)
	}
	return p, nil
}

// work lets the process begin, and returns its grants.
func (p *process) work() ([]grant, error) {
	if _, err := fmt.Fprintln(p.stdin); err != nil {
		return nil, err
	}
	var moments [][2]int64
	if err := json.NewDecoder(p.stdout).Decode(&moments); err != nil {
		return nil, fmt.Errorf("shares: a process has no result: %w", err)
	}
	grants := make([]grant, len(moments))
	for i, us := range moments {
		grants[i] = grant{time.UnixMicro(us[0]), 1, time.Duration(us[1]) * time.Microsecond}
	}
	return grants, nil
}

// end ends the process and returns when it is gone.
func (p *process) end() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}
