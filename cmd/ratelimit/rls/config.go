package rls

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
)

// A File is a configuration file: its text, and the name to report its mistakes with.
type File struct {
	Name string
	Data []byte
}

// A Mistake is an error in a File. It is a limit.ErrInvalidArgument.
type Mistake struct {
	File string
	Line int    // 0 if unknown
	Key  string // such as descriptors[2].rate_limit.unit; empty for the whole file
	Text string
}

// Error returns a line such as `api.yaml:7: descriptors[0].rate_limit.unit is "foo", must be ...`.
func (m *Mistake) Error() string {
	text := m.File
	if m.Line > 0 {
		text += fmt.Sprintf(":%d", m.Line)
	}
	if m.Key == "" {
		return text + ": " + m.Text
	}
	return text + ": " + m.Key + " " + m.Text
}

// Unwrap returns limit.ErrInvalidArgument.
func (m *Mistake) Unwrap() error { return limit.ErrInvalidArgument }

// A Config holds the limits of all domains. It is immutable.
type Config struct {
	domains map[string]*domain
}

// Domains returns the number of domains.
func (c *Config) Domains() int { return len(c.domains) }

// A domain is the tree of the descriptors of a domain.
type domain struct {
	name      string
	root      node
	allOrNone bool
	fallback  string // of limits that have none of their own
	line      int
	file      string
}

// A pair is a key and a value of a descriptor. An empty value matches any.
type pair struct{ key, value string }

// A node is a descriptor of a file, or the root of a domain.
type node struct {
	pair
	next           map[pair]*node
	patterns       []*node // of next, the nodes whose value has a *, in the order of the files
	parts          []string
	rule           *rule // nil without a rate_limit
	shareThreshold bool
	valueToMetric  bool
}

// add adds a child, and reports false if there is one with the same key and value.
func (n *node) add(child *node) bool {
	if n.next[child.pair] != nil {
		return false
	}
	if n.next == nil {
		n.next = make(map[pair]*node)
	}
	n.next[child.pair] = child
	if strings.Contains(child.value, "*") {
		child.parts = strings.Split(child.value, "*")
		n.patterns = append(n.patterns, child)
	}
	return true
}

// A rule is the rate_limit of a descriptor with everything that goes with it.
type rule struct {
	path string // such as domain.key1_value1.key2; names the rule in metrics and texts

	rate      int64
	interval  time.Duration
	unlimited bool
	algorithm string
	burst     int64            // 0 if not given
	unit      fixedwindow.Unit // with Options.Calendar; 0: none
	limiter   string           // the name of a limiter for all values; empty for a limiter for each
	charge    bool             // hits of a descriptor are charged, never refused
	fallback  string

	label    string // the name in responses, which replaces refers to
	replaces []string
	shadow   bool
	quota    bool
	detailed bool
	dynamic  bool // metrics have values of requests
	metadata *structpb.Struct

	domain  *domain
	current *pb.RateLimitResponse_RateLimit // as shown in responses
	open    func(key string) counter        // nil before Service.Load, and if no limiter decides
	metrics *metrics                        // nil before Service.Load, or if dynamic
}

// period returns the period of a limit that may be one of the calendar, otherwise 0: limits that Java or a
// group shares stay exact. named says whether the file names the algorithm.
func (r *rule) period(u unit, named bool) fixedwindow.Unit {
	if r.algorithm == fixedWindow || !named && r.limiter == "" && !r.domain.allOrNone {
		return u.period
	}
	return 0
}

// most returns the most hits at once.
func (r *rule) most() int64 { return cmp.Or(r.burst, r.rate) }

// A unit is an interval that Envoy has a name for.
type unit struct {
	name   string
	number pb.RateLimitResponse_RateLimit_Unit
	length time.Duration
	period fixedwindow.Unit // of a calendar; 0: none
}

const day = 24 * time.Hour

// units are those of the protocol. Months and years have the lengths of the reference service.
var units = []unit{
	{"second", pb.RateLimitResponse_RateLimit_SECOND, time.Second, 0},
	{"minute", pb.RateLimitResponse_RateLimit_MINUTE, time.Minute, 0},
	{"hour", pb.RateLimitResponse_RateLimit_HOUR, time.Hour, 0},
	{"day", pb.RateLimitResponse_RateLimit_DAY, day, fixedwindow.Day},
	{"week", pb.RateLimitResponse_RateLimit_WEEK, 7 * day, fixedwindow.Week},
	{"month", pb.RateLimitResponse_RateLimit_MONTH, 30 * day, fixedwindow.Month},
	{"year", pb.RateLimitResponse_RateLimit_YEAR, 365 * day, fixedwindow.Year},
}

// show sets what responses say about the limit. The protocol cannot express an interval of, say,
// five minutes: such a limit has no unit, because Envoy tells visitors the window of the unit, and its name
// has the interval.
func (r *rule) show() {
	name, number := r.label, pb.RateLimitResponse_RateLimit_UNKNOWN
	i := slices.IndexFunc(units, func(u unit) bool { return u.length == r.interval })
	switch {
	case i >= 0:
		number = units[i].number
	case name == "" && !r.unlimited:
		name = fmt.Sprintf("%d per %v", r.rate, r.interval)
	}
	r.current = &pb.RateLimitResponse_RateLimit{
		Name: name, RequestsPerUnit: uint32(min(r.rate, 1<<32-1)), Unit: number,
	}
}

// String returns one line for each limit, in the order of their paths.
func (c *Config) String() string {
	var lines []string
	c.each(func(r *rule, _ string) { lines = append(lines, r.String()) })
	slices.Sort(lines)
	return strings.Join(append(lines, ""), "\n")
}

// String returns the limit as a line.
func (r *rule) String() string {
	text := r.path + ": unlimited"
	if !r.unlimited {
		text = fmt.Sprintf("%s: %d per %v, algorithm=%s, fallback=%s", r.path, r.rate, r.interval,
			r.algorithm, r.fallback)
	}
	if r.limiter != "" {
		text += fmt.Sprintf(", name=%q", r.limiter)
	}
	for _, flag := range []struct {
		set  bool
		name string
	}{{r.shadow, "shadow_mode"}, {r.quota, "quota_mode"}, {r.domain.allOrNone, "all_or_none"}} {
		if flag.set {
			text += ", " + flag.name
		}
	}
	return text
}

// Example returns the path and query of a request to /check for the limit whose path sorts first; empty
// without limits.
func (c *Config) Example() string {
	best, first := "", ""
	c.each(func(r *rule, query string) {
		if !r.unlimited && (first == "" || r.path < first) {
			first, best = r.path, "/check/"+url.PathEscape(r.domain.name)+"?"+query
		}
	})
	return best
}

// each calls f for each rule, with a query that leads to it.
func (c *Config) each(f func(r *rule, query string)) {
	for _, d := range c.domains {
		d.root.each("", f)
	}
}

func (n *node) each(query string, f func(r *rule, query string)) {
	if n.rule != nil {
		f(n.rule, strings.TrimPrefix(query, "&"))
	}
	for _, child := range n.next {
		value := strings.ReplaceAll(cmp.Or(child.value, "x"), "*", "x")
		child.each(query+"&"+url.QueryEscape(child.key)+"="+url.QueryEscape(value), f)
	}
}
