package rratelimiter

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A request is what one script call asks for: the permits of one caller, or of
// many who came together; or that permits are given back. It is the same however
// often it is sent, and the session of the Client tells by its number whether it
// was carried out (scripts/parts/session.lua).
//
// The requests of a limiter are sent one after another, with numbers that grow,
// so that one number says what has become of all of them.
type request struct {
	keys       *limiterKeys
	sc         *script
	number     int64
	runs       []run       // of an acquire
	permits    int64       // of all together
	records    any         // that hold as many; []byte, boxed for go-redis
	withdrawal *withdrawal // taken back with it, nil if there is none
	start      time.Time
	numbers    bool // somebody wants more than yes or no
	unsure     bool // a copy of it may be on its way, or have been carried out
}

// A run is a number of equal requests, one behind the other; negative where
// they stand in line (scripts/acquire.lua).
type run struct{ permits, many int64 }

func (r run) size() int64 { return max(r.many, -r.many) }

// A withdrawal is what requests of this session may have been granted and nobody
// holds: all that those after a number were granted, for their answers never came,
// and what that one was granted beyond the permits that are kept, for callers have
// left. It goes back with the next request (scripts/parts/withdraw.lua).
type withdrawal struct {
	after, kept int64
	since       time.Time
}

// keptAll is for a withdrawal that leaves what a request was granted to it.
const keptAll = 1 << 52 // far more than a request takes

// newAcquire returns the request for runs of equal ones.
func (k *limiterKeys) newAcquire(runs []run, d *withdrawal) *request {
	c := k.client
	r := &request{keys: k, sc: acquireScript, number: c.requests.Add(1), runs: runs, withdrawal: d, start: time.Now()}
	for _, run := range runs {
		r.permits += run.permits * run.size()
	}
	r.records = c.layout().appendAll(make([]byte, 0, recordSpace), r.permits, c.resolution > 0)
	return r
}

// newRelease returns the request that gives permits back. With 0 permits it only
// takes back what nobody holds.
func (k *limiterKeys) newRelease(permits int64, d *withdrawal) *request {
	return &request{
		keys: k, sc: releaseScript, number: k.client.requests.Add(1), permits: permits, records: "",
		withdrawal: d, start: time.Now(),
	}
}

// send asks until all of the request is done, for a call of Redis handles so many
// records and no more.
func (r *request) send(ctx context.Context) (reply, error) {
	for {
		rep, unsure, err := r.keys.call(ctx, r.sc, r.start, r.args()...)
		r.unsure = r.unsure || unsure
		if err != nil {
			return rep, err
		}
		switch again := rep.numbers[0]; {
		case r.sc == releaseScript:
			if rep.numbers[1] == 0 {
				return rep, nil
			}
			if rep.numbers[0] < 0 { // not all is withdrawn yet
				break
			}
			// The rest is a request of its own, for this one is done.
			r.permits -= rep.numbers[0]
			r.number, r.withdrawal, r.unsure, r.start = r.keys.client.requests.Add(1), nil, false, time.Now()
		case rep.brief && again > 0: // a lone request, refused
			rep.numbers[0], rep.answers = 0, []int64{0, again}
			return rep, nil
		case again == 0 && len(rep.answers) != 0 && len(rep.answers) != 2*len(r.runs):
			return rep, fmt.Errorf("%w %d numbers for %d runs", errShape, len(rep.answers), len(r.runs))
		case again == 0:
			return rep, nil
		}
		if err := ctx.Err(); err != nil {
			return rep, err
		}
	}
}

// args returns ARGV[2] and what follows it; what is not needed stands behind.
func (r *request) args() []any {
	c := r.keys.client
	a := make(arguments, 0, argSlot+2*len(r.runs))
	a.put(argSession, c.session)
	a.put(argNumber, digits(r.number))
	a.put(argPermits, r.permits)
	a.put(argRecords, r.records)
	if c.clock != nil {
		a.put(argNow, c.now())
	}
	if r.unsure {
		a.put(argResent, time.Since(r.start).Milliseconds())
	}
	if r.numbers {
		a.put(argNumbers, 1)
	}
	if r.withdrawal != nil {
		a.put(argAfter, digits(r.withdrawal.after))
		a.put(argKept, r.withdrawal.kept)
	}
	if r.withdrawal != nil || r.sc == releaseScript {
		a.put(argChannel, r.keys.channel)
	}
	if c.resolution > 0 && r.sc == acquireScript {
		a.put(argSlot, c.resolution.Milliseconds())
	}
	if len(r.runs) > 1 || len(r.runs) == 1 && r.runs[0].size() > 1 {
		for i, run := range r.runs {
			a.put(argRuns+2*i, run.permits)
			a.put(argRuns+2*i+1, run.many)
		}
	}
	return a
}

// digits returns a number as sessions write it, so that texts compare as numbers
// do (scripts/parts/session.lua).
func digits(n int64) string {
	var text [16]byte
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = byte('0' + n%10)
		n /= 10
	}
	return string(text[:])
}

// arguments are ARGV[2] and what follows it.
type arguments []any

// put appends ARGV[i]; those before it that nobody has put are empty.
func (a *arguments) put(i int, v any) {
	for len(*a) < i-argSession {
		*a = append(*a, "")
	}
	*a = append(*a, v)
}

// call runs a script on the limiter's keys. The script names the type it
// finds when that is not the one we believe in, and is asked once more. start is
// when it was first sent, args are ARGV[2] and what follows it.
func (k *limiterKeys) call(ctx context.Context, sc *script, start time.Time, args ...any) (r reply, unsure bool, err error) {
	for range 3 {
		typ := k.believed()
		var lost bool
		r, lost, err = k.send(ctx, sc, typ, start, args...)
		unsure = unsure || lost
		if !redis.HasErrorPrefix(err, "OTHERTYPE ") {
			break
		}
		k.believe(1 - typ)
	}
	return r, unsure, err
}

// send runs a script on the keys of one type.
func (k *limiterKeys) send(ctx context.Context, sc *script, typ RateType, start time.Time, args ...any) (reply, bool, error) {
	p := &k.pairs[typ]
	argv := make([]any, argv0+argSession, argv0+argSession+len(args))
	argv[0], argv[1], argv[2], argv[argv0+1] = "evalsha", sc.hash, 3, int(typ)
	copy(argv[3:], p.argv[:])
	r, unsure, err := k.client.sender.send(ctx, sc, append(argv, args...), start)
	return r, unsure, k.scriptError(typ, err)
}
