package otellimit

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redisson-go/rratelimiter"
)

// A result is the value of the attribute of that name. There are no other values, whatever the error.
type result int

const (
	granted result = iota
	refused
	noAnswer
	canceled
	timeout
	notInitialized
	permitsExceedRate
	invalidArgument
	badState
	notReplicated
	closed
	otherError
	results // the number of results
)

// named are the names of the results and their errors. The first match of an error counts.
var named = [results]struct {
	name string
	err  error
}{
	granted:           {name: "granted"},
	refused:           {name: "refused"},
	noAnswer:          {"no_answer", rratelimiter.ErrNoAnswer},
	canceled:          {"canceled", context.Canceled},
	timeout:           {"timeout", context.DeadlineExceeded},
	notInitialized:    {"not_initialized", rratelimiter.ErrNotInitialized},
	permitsExceedRate: {"permits_exceed_rate", rratelimiter.ErrPermitsExceedRate},
	invalidArgument:   {"invalid_argument", rratelimiter.ErrInvalidArgument},
	badState:          {"bad_state", rratelimiter.ErrBadState},
	notReplicated:     {"not_replicated", rratelimiter.ErrNotReplicated},
	closed:            {"closed", rratelimiter.ErrClosed},
	otherError:        {name: "error"},
}

func (r result) String() string { return named[r].name }

// resultOf returns the result of an observation. If Redis did not reply, the result is noAnswer even
// if a context ended the call, because that is the cause.
func resultOf(o *rratelimiter.Observation) result {
	switch {
	case o.Err == nil && o.Result.Allowed:
		return granted
	case o.Err == nil:
		return refused
	}
	for r := noAnswer; r < otherError; r++ {
		if errors.Is(o.Err, named[r].err) {
			return r
		}
	}
	return otherError
}

// The attributes. policy has few values; those of result are the constants of type result.
const (
	policyKey  = attribute.Key("policy")
	resultKey  = attribute.Key("result")
	permitsKey = attribute.Key("permits")
)

const (
	// maxPolicies is how many policies an Observer distinguishes: far more than a dashboard
	// shows, and few enough that a WithPolicy with a name for each user does not fill the memory.
	maxPolicies = 1000

	// otherPolicy is the policy of all further names. OpenTelemetry's conventions use it for
	// unknown values.
	otherPolicy = "_OTHER"
)

// A series holds the attributes of one policy, made once: making and sorting them for each call would
// cost more than counting it.
type series struct {
	attributes
	results [results]attributes
}

// attributes are one set, in the forms that instruments and spans take. The slices are read-only.
type attributes struct {
	all    []attribute.KeyValue
	add    []metric.AddOption
	record []metric.RecordOption
}

func newAttributes(all ...attribute.KeyValue) attributes {
	set := metric.WithAttributeSet(attribute.NewSet(all...))
	return attributes{all, []metric.AddOption{set}, []metric.RecordOption{set}}
}

func newSeries(policy string) *series {
	var all []attribute.KeyValue
	if policy != "" {
		// Exporters refuse all metrics if one has bytes that are not UTF-8.
		all = append(all, policyKey.String(strings.ToValidUTF8(policy, "\uFFFD")))
	}
	s := &series{attributes: newAttributes(all...)}
	for r := range results {
		s.results[r] = newAttributes(append(all[:len(all):len(all)], resultKey.String(r.String()))...)
	}
	return s
}

// A catalog finds the series of a policy. Reading takes no lock.
type catalog struct {
	byPolicy atomic.Pointer[map[string]*series] // replaced, never changed
	mu       sync.Mutex                         // held to replace byPolicy
}

// of returns the series of a policy.
func (c *catalog) of(policy string) *series {
	if s, ok := (*c.byPolicy.Load())[policy]; ok {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := *c.byPolicy.Load()
	if len(all) >= maxPolicies {
		policy = otherPolicy
	}
	if s, ok := all[policy]; ok {
		return s
	}
	more := maps.Clone(all)
	more[policy] = newSeries(policy)
	c.byPolicy.Store(&more)
	return more[policy]
}
