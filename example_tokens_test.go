package rratelimiter_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// A gateway forwards questions to a language model. Each user has 3 questions and 2,000 tokens a
// minute, and all users together have 3,000 tokens of the model.
type gateway struct {
	client           *rratelimiter.Client
	requests, tokens *rratelimiter.Keyed
	model            *rratelimiter.RateLimiter
	upstream         string
}

func newGateway(client *rratelimiter.Client, upstream string) *gateway {
	return &gateway{
		client:   client,
		requests: client.Keyed("{llm}:requests", 3, time.Minute),
		tokens:   client.Keyed("{llm}:tokens", 2000, time.Minute),
		model:    client.RateLimiter("{llm}:model").WithRate(3000, time.Minute),
		upstream: upstream,
	}
}

// ServeHTTP reserves an estimate, forwards the question, and settles what the answer used.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const bytesPerToken, longestAnswer = 4, 500
	question, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	user := r.Header.Get("User") // whom the gateway has authenticated
	estimate := int64(len(question)/bytesPerToken + longestAnswer)
	limits := g.client.All(g.requests.For(user), g.tokens.For(user), g.model)
	// A silent Redis may delay a question by a second. Without a deadline it would be 20 s.
	soon, cancel := context.WithTimeout(r.Context(), time.Second)
	reservation, result, err := limits.Amounts(1, estimate, estimate).TryReserve(soon, 1)
	cancel()
	switch {
	case errors.Is(err, rratelimiter.ErrPermitsExceedRate): // waiting would not help
		http.Error(w, "the question is too long", http.StatusRequestEntityTooLarge)
		return
	case errors.Is(err, rratelimiter.ErrInvalidArgument): // a missing user, or one with braces
		http.Error(w, "the user is missing or invalid", http.StatusBadRequest)
		return
	case r.Context().Err() != nil: // the user has left
		return
	case err != nil: // Redis has failed: let the question pass, without a limit
		log.Print(err)
	case reservation == nil:
		seconds := int64((result.RetryAfter + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
		http.Error(w, "too many tokens, see Retry-After", http.StatusTooManyRequests)
		return
	}
	used, err := g.answer(w, r, string(question))
	if err != nil {
		log.Print(err)
	}
	if reservation == nil || err != nil {
		return // the usage is unknown: the estimate counts
	}
	// The user may have left, but the tokens are used: settle also if the request has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Second)
	defer cancel()
	if err := reservation.Settle(ctx, 1, used, used); err != nil {
		log.Print(err) // the estimate counts
	}
}

// answer streams the answer of the model to the user, and returns the tokens that it used: none if
// the model does not answer.
func (g *gateway) answer(w http.ResponseWriter, r *http.Request, question string) (used int64, err error) {
	response, err := g.ask(r.Context(), question)
	if err != nil {
		log.Print(err)
		http.Error(w, "the model does not answer", http.StatusBadGateway)
		return 0, r.Context().Err() // nil if the model refused, which costs no tokens
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() { // a chunk of the answer, or the usage at its end
		if usage, ok := strings.CutPrefix(lines.Text(), "usage "); ok {
			return strconv.ParseInt(usage, 10, 64)
		}
		if _, err := fmt.Fprintln(w, lines.Text()); err != nil {
			return 0, err
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return 0, err
		}
	}
	return 0, errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

// ask sends the question, up to three times. All attempts have one reservation.
func (g *gateway) ask(ctx context.Context, question string) (response *http.Response, err error) {
	const attempts = 3
	for range attempts {
		var request *http.Request
		body := strings.NewReader(question)
		request, err = http.NewRequestWithContext(ctx, http.MethodPost, g.upstream, body)
		if err != nil {
			return nil, err
		}
		response, err = http.DefaultClient.Do(request)
		if err == nil && response.StatusCode == http.StatusOK {
			return response, nil
		}
		if err == nil {
			err = errors.Join(errors.New(response.Status), response.Body.Close())
		}
	}
	return nil, err
}

// A gateway to a language model: requests and tokens for each user, tokens for the model, answers
// as they come, and an estimate that is settled by what was used.
func ExampleReservation() {
	calls := 0
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			http.Error(w, "overloaded", http.StatusServiceUnavailable)
			return
		}
		question, _ := io.ReadAll(r.Body)
		if string(question) == "silence?" {
			http.Error(w, "overloaded", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "42.\nusage %d\n", len(question)/4+100)
	}))
	defer model.Close()
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()
	gateway := newGateway(client, model.URL)

	for _, question := range []string{strings.Repeat("why? ", 800), "why?", "silence?", "why?"} {
		request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(question))
		request.Header.Set("User", "alice")
		response := httptest.NewRecorder()
		gateway.ServeHTTP(response, request)
		left, err := gateway.tokens.For("alice").AvailablePermits(ctx)
		fmt.Println(response.Code, strings.TrimSpace(response.Body.String()), left, err)
	}
	// Output:
	// 200 42. 900 <nil>
	// 200 42. 799 <nil>
	// 502 the model does not answer 799 <nil>
	// 429 too many tokens, see Retry-After 799 <nil>
}
