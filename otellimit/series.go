package otellimit

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The attributes. Values of policy are few, and those of result are known.
const (
	policyKey  = attribute.Key("policy")
	resultKey  = attribute.Key("result")
	permitsKey = attribute.Key("permits")
)

const (
	// maxPolicies is how many policies an Observer tells apart: far more than a board
	// shows, and few enough that a WithPolicy that names users fills no memory.
	maxPolicies = 1000

	// otherPolicy is the policy of those beyond, as conventions of OpenTelemetry call
	// what they do not know.
	otherPolicy = "_OTHER"
)

// A series holds the attributes of one policy, made once: to make and sort them for each
// call would cost more than to count it.
type series struct {
	attributes
	results [results]attributes
}

// attributes are one set, in the forms that are asked for. The slices are never changed.
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
		all = append(all, policyKey.String(policy))
	}
	s := &series{attributes: newAttributes(all...)}
	for r := range results {
		s.results[r] = newAttributes(append(all[:len(all):len(all)], resultKey.String(r.String()))...)
	}
	return s
}

// A catalog finds the series of a policy. Reading takes no lock.
type catalog struct {
	known atomic.Pointer[map[string]*series] // replaced, never changed
	mu    sync.Mutex                         // held to replace known
}

// of returns the series of a policy.
func (c *catalog) of(policy string) *series {
	if s, ok := (*c.known.Load())[policy]; ok {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := *c.known.Load()
	if len(known) >= maxPolicies {
		policy = otherPolicy
	}
	if s, ok := known[policy]; ok {
		return s
	}
	more := maps.Clone(known)
	more[policy] = newSeries(policy)
	c.known.Store(&more)
	return more[policy]
}
