package rls

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// metrics returns the metrics of an item.
func (s *Service) metrics(it *item) *metrics {
	if it.rule.metrics != nil {
		return it.rule.metrics
	}
	return s.meters.of(it.rule.domain.name, it.metric)
}

// count counts a decision.
func (s *Service) count(it *item) {
	if it.rule == nil || it.negative {
		return
	}
	m, hits := s.metrics(it), float64(it.hits)
	m.hits.Add(hits)
	r := &it.result
	switch {
	case it.over && it.rule.shadow:
		m.over.Add(hits)
		m.shadow.Add(hits)
	case it.over:
		m.over.Add(hits)
	default:
		m.within.Add(hits)
		if float64(r.Limit-r.Remaining) > s.options.NearRatio*float64(r.Limit) {
			m.near.Add(hits)
		}
	}
	if r.Degraded {
		s.meters.degraded.Inc()
	}
}

// respond returns the response for what was decided.
func (s *Service) respond(in *pb.RateLimitRequest, items []item) *pb.RateLimitResponse {
	out := &pb.RateLimitResponse{Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(items))}
	over, quotas, quotasOver := 0, 0, 0
	for i := range items {
		it := &items[i]
		out.Statuses[i] = it.status()
		quota := s.quota(it)
		refused := out.Statuses[i].Code == pb.RateLimitResponse_OVER_LIMIT
		switch {
		case quota && refused:
			quotasOver++
			quotas++
		case quota:
			quotas++
		case refused:
			over++
		}
	}
	out.OverallCode = pb.RateLimitResponse_OK
	if over > 0 || quotas > 0 && quotas == quotasOver {
		out.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	}
	if s.options.Headers {
		out.ResponseHeadersToAdd = s.headers(items, out.OverallCode)
	}
	if out.OverallCode == pb.RateLimitResponse_OVER_LIMIT && s.options.Shadow {
		out.OverallCode = pb.RateLimitResponse_OK
		s.meters.globalShadow.Inc()
	}
	if s.options.Metadata {
		out.DynamicMetadata = metadata(in, items, out.Statuses)
	}
	return out
}

// status returns the status of a descriptor.
func (it *item) status() *pb.RateLimitResponse_DescriptorStatus {
	out := &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
	switch {
	case it.unlimited:
		out.LimitRemaining = math.MaxUint32
		return out
	case it.rule == nil:
		return out
	case it.over && !it.rule.shadow:
		out.Code = pb.RateLimitResponse_OVER_LIMIT
	}
	out.CurrentLimit = it.rule.current
	r := &it.result
	if r.Limit > 0 && r.Interval > 0 && (r.Limit != it.rule.rate || r.Interval != it.rule.interval) &&
		it.rule.limiter != "" {
		set := *it.rule // another client has set the rate of the limiter
		set.rate, set.interval = r.Limit, r.Interval
		set.show()
		out.CurrentLimit = set.current
	}
	out.LimitRemaining = uint32(min(max(r.Remaining, 0), math.MaxUint32))
	out.DurationUntilReset = durationpb.New(until(r))
	return out
}

// until returns the time to retry: when the refused permits will be there, otherwise when all are back. It
// is rounded up to whole seconds, because Envoy truncates and would make clients retry too early.
func until(r *limit.Result) time.Duration {
	d := r.ResetAfter
	if r.RetryAfter > 0 {
		d = r.RetryAfter
	}
	return (d + time.Second - 1).Truncate(time.Second)
}

// results returns the Results of the descriptors that have a limit, and the one that binds.
func results(items []item) (binds *item, all []limit.Result) {
	for i := range items {
		it := &items[i]
		if it.rule == nil {
			continue
		}
		r := it.result
		r.Each, r.Policy, r.Allowed = nil, it.rule.current.GetName(), !it.over || it.rule.shadow
		if r.Limit == 0 {
			r.Limit, r.Interval = it.rule.rate, it.rule.interval
		}
		all = append(all, r)
		if binds == nil || tighter(it, binds) {
			binds = it
		}
	}
	return binds, all
}

// tighter reports whether an item binds rather than another.
func tighter(it, other *item) bool {
	refused, otherRefused := it.over && !it.rule.shadow, other.over && !other.rule.shadow
	switch {
	case refused != otherRefused:
		return refused
	case refused:
		return it.result.RetryAfter > other.result.RetryAfter
	}
	return it.result.Remaining < other.result.Remaining
}

// result returns the Result of all descriptors together, as if one limiter had decided. ok is false if no
// descriptor has a limit.
func result(items []item, code pb.RateLimitResponse_Code) (r limit.Result, ok bool) {
	binds, all := results(items)
	if binds == nil {
		return limit.Result{Allowed: true}, false
	}
	r = binds.result
	if r.Limit == 0 {
		r.Limit, r.Interval = binds.rule.rate, binds.rule.interval
	}
	r.Each, r.Allowed = all, code != pb.RateLimitResponse_OVER_LIMIT
	return r, true
}

// headers returns the fields for the response to the visitor.
func (s *Service) headers(items []item, code pb.RateLimitResponse_Code) []*core.HeaderValue {
	r, ok := result(items, code)
	if !ok {
		return nil
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	out := []*core.HeaderValue{
		{Key: s.options.LimitHeader, Value: number(r.Limit)},
		{Key: s.options.RemainingHeader, Value: number(r.Remaining)},
		{Key: s.options.ResetHeader, Value: number(int64(until(&r) / time.Second))},
	}
	h := make(http.Header)
	httplimit.SetFields(h, r)
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "Retry-After"} {
		for _, line := range h.Values(name) {
			out = append(out, &core.HeaderValue{Key: name, Value: line})
		}
	}
	return out
}

// metadata returns the dynamic metadata of a response, as the reference service has it.
func metadata(
	in *pb.RateLimitRequest, items []item, statuses []*pb.RateLimitResponse_DescriptorStatus,
) *structpb.Struct {
	var descriptors []*structpb.Value
	for _, d := range in.GetDescriptors() {
		descriptors = append(descriptors, structpb.NewStructValue(entriesOf(d)))
	}
	out := &structpb.Struct{Fields: map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(in.GetDomain()),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: descriptors}),
	}}
	if hits := in.GetHitsAddend(); hits != 0 {
		out.Fields["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	passed := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for i, it := range items {
		if it.rule != nil && statuses[i].Code == pb.RateLimitResponse_OK {
			join(passed, it.rule.metadata)
		}
	}
	if len(passed.Fields) > 0 {
		out.Fields["metadata"] = structpb.NewStructValue(passed)
	}
	return out
}

func entriesOf(d *descriptor.RateLimitDescriptor) *structpb.Struct {
	var entries []*structpb.Value
	for _, e := range d.GetEntries() {
		entries = append(entries, structpb.NewStringValue(e.GetKey()+"="+e.GetValue()))
	}
	out := &structpb.Struct{Fields: map[string]*structpb.Value{
		"entries": structpb.NewListValue(&structpb.ListValue{Values: entries}),
	}}
	if d.GetLimit() != nil {
		out.Fields["limit"] = structpb.NewStringValue(fmt.Sprint(d.GetLimit()))
	}
	if hits := d.GetHitsAddend(); hits != nil {
		out.Fields["hitsAddend"] = structpb.NewNumberValue(float64(hits.GetValue()))
	}
	return out
}

// join adds the fields of a struct to another one, recursively. Existing fields stay.
func join(to, from *structpb.Struct) {
	for name, value := range from.GetFields() {
		there := to.Fields[name]
		switch {
		case there == nil && value.GetStructValue() != nil:
			// A copy: the metadata of a rule belong to all requests.
			copied := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
			join(copied, value.GetStructValue())
			to.Fields[name] = structpb.NewStructValue(copied)
		case there == nil:
			to.Fields[name] = value
		case there.GetStructValue() != nil && value.GetStructValue() != nil:
			join(there.GetStructValue(), value.GetStructValue())
		}
	}
}
