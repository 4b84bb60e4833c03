package rls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
)

// maxBody is the most bytes in the body of a request to /json.
const maxBody = 64 << 10

// Handler returns the HTTP side of the service: POST /json, whose bodies are a RateLimitRequest and a
// RateLimitResponse in JSON, and GET /check/DOMAIN?key=value&..., whose query is one descriptor. Both reply
// 200 or 429. /check has the fields RateLimit-Policy, RateLimit and Retry-After, as httplimit writes them.
// The query header:key=Name takes the value of the key from the header field Name of the request, hashed as
// by httplimit.ByHeader, and plain:key=Name takes it as it is.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /json", s.serveJSON)
	mux.HandleFunc("GET /check/{domain}", s.serveCheck)
	return mux
}

func (s *Service) serveJSON(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	in := &pb.RateLimitRequest{}
	if err == nil {
		err = protojson.Unmarshal(body, in)
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := s.ShouldRateLimit(r.Context(), in)
	if err != nil {
		writeStatus(w, err)
		return
	}
	text, err := protojson.Marshal(out)
	if err != nil {
		writeStatus(w, s.failure(r.Context(), err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if out.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text)
}

// writeStatus writes the error of a gRPC call.
func writeStatus(w http.ResponseWriter, err error) {
	http.Error(w, status.Convert(err).Message(), httpStatus(err))
}

func httpStatus(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// serveCheck decides about the descriptor in a query, and leaves the response to httplimit.
func (s *Service) serveCheck(w http.ResponseWriter, r *http.Request) {
	in, err := requestOf(r.PathValue("domain"), r.URL.RawQuery, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	items, err := s.decide(r.Context(), in)
	if err != nil {
		writeStatus(w, s.failure(r.Context(), err))
		return
	}
	result, _ := result(items, s.respond(in, items).GetOverallCode())
	decided := limit.Func(func(context.Context, int64) (limit.Result, error) { return result, nil })
	m, err := httplimit.New(limit.Shared(decided), httplimit.Constant("check"))
	if err != nil {
		writeStatus(w, s.failure(r.Context(), err))
		return
	}
	m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})).ServeHTTP(w, r)
}

// hashedHeader and plainHeader begin the keys of a query whose values are names of header fields. A gateway
// that cannot escape what a visitor sends, or whose URL is fixed, can then keep it out of the query. Values
// of hashedHeader may be secrets, such as API keys.
const hashedHeader, plainHeader = "header", "plain"

// fieldOf returns the value of a header field, empty without one. Envoy joins several in the same way.
func fieldOf(r *http.Request, name string, hash bool) string {
	name = http.CanonicalHeaderKey(name)
	value := strings.Join(admission.Header(r, name), ",")
	if hash && value != "" {
		value, _ = httplimit.ByHeader(name)(&http.Request{Host: value, Header: http.Header{name: {value}}})
	}
	return value
}

// requestOf returns the request of a query. The order of its keys counts, as in a descriptor.
func requestOf(domain, query string, r *http.Request) (*pb.RateLimitRequest, error) {
	d := &descriptor.RateLimitDescriptor{}
	for field := range strings.SplitSeq(query, "&") {
		if field == "" {
			continue
		}
		rawKey, rawValue, _ := strings.Cut(field, "=")
		key, err := url.QueryUnescape(rawKey)
		if err != nil {
			return nil, err
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return nil, err
		}
		kind, name, found := strings.Cut(key, ":")
		if found && (kind == hashedHeader || kind == plainHeader) {
			if value == "" {
				return nil, fmt.Errorf("%s is empty, must be the name of a header field", key)
			}
			key, value = name, fieldOf(r, value, kind == hashedHeader)
		}
		if key == "" {
			return nil, errors.New("a key of the query is empty")
		}
		d.Entries = append(d.Entries, &descriptor.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	if len(d.Entries) == 0 {
		return nil, errors.New("the query is empty, must have a key and a value, as in ?user=bob")
	}
	return &pb.RateLimitRequest{Domain: domain, Descriptors: []*descriptor.RateLimitDescriptor{d}}, nil
}
