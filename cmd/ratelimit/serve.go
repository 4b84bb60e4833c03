package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/cmd/ratelimit/rls"
	"github.com/redisson-go/rratelimiter/internal/words"
)

const (
	// reloading is the time between two looks at the configuration.
	reloading = time.Second
	// leaving is how long the health is bad before connections close: clients look elsewhere by then.
	leaving = time.Second
	// greeting is how long a client that has only just connected to gRPC may take to begin.
	greeting = 100 * time.Millisecond
	// workers is the number of goroutines that stay for further calls.
	workers = 512
	// window is how much a client may send ahead, the default of HTTP/2. With a fixed one, grpc-go measures
	// no bandwidth, which costs a ping and its reply for most calls of an idle connection.
	window = 65535
	// patience is how long a ping waits for Redis.
	patience = 2 * time.Second
	// draining is how long requests may take to end.
	draining = 10 * time.Second
	// reading is how long a client may take to send a request, and idle how long its connection may rest
	// between two: longer than clients keep one, which would otherwise send into a closed connection.
	reading, idle = 10 * time.Second, 5 * time.Minute
)

// A server is the ports of the service.
type server struct {
	settings *settings
	service  *rls.Service
	log      *slog.Logger
	grpc     *grpc.Server
	listener net.Listener // of grpc
	health   *healthServer
	web      []*webServer
	calls    atomic.Int64 // of gRPC, under way
	leaving  atomic.Bool  // the process drains
	failed   chan error
}

// serve serves until ctx ends, and then drains.
func serve(ctx context.Context, s *settings, stderr io.Writer) error {
	logging := &slog.HandlerOptions{Level: levels[strings.ToUpper(s.LogLevel)]} // validated
	var handler slog.Handler = slog.NewTextHandler(stderr, logging)
	if strings.EqualFold(s.LogFormat, "json") {
		handler = slog.NewJSONHandler(stderr, logging)
	}
	rdb, closeRedis, err := connect(s)
	if err != nil {
		return err
	}
	log := slog.New(handler)
	var asking sync.WaitGroup
	pinging, ended := context.WithCancel(context.WithoutCancel(ctx)) // requests are decided while it drains
	defer func() { ended(); asking.Wait(); closeRedis() }()
	options := s.options()
	options.OnHealth = func(h rratelimiter.Health) {
		if h.Degraded {
			asking.Go(func() {
				log.Warn("Redis has failed, fallbacks decide", "cause", h.Cause, "ping", s.ping(pinging))
			})
			return
		}
		log.Info("Redis is back")
	}
	options.OnFailure = func(err error) {
		log.Debug("a limiter has failed", "error", err)
		const text = "a limiter has failed, LOG_LEVEL=DEBUG shows the error"
		asking.Go(func() { log.Warn(text, "ping", cmp.Or(s.ping(pinging), errWell), "budget", s.budget) })
	}
	service, err := rls.New(rdb, options)
	if err != nil {
		return errors.New(flagOf.Replace(err.Error()))
	}
	defer service.Close()
	files, err := s.source().Read()
	if err == nil {
		err = service.Load(files)
	}
	if err != nil {
		return fmt.Errorf("the configuration, which --config or RUNTIME_ROOT names: %w", err)
	}
	v := &server{settings: s, service: service, log: log, failed: make(chan error, 4)}
	if err := v.listen(stderr); err != nil {
		return err
	}
	asking.Go(func() {
		if err := s.ping(ctx); err != nil && ctx.Err() == nil {
			log.Warn("Redis does not reply yet, fallbacks decide", "ping", err)
		}
	})
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { service.Watch(watching, s.source(), reloading, v.reloaded) })
	select {
	case <-ctx.Done():
	case err = <-v.failed:
	}
	stop()
	watch.Wait()
	v.drain(err == nil)
	return err
}

// errWell stands for the error of a ping that has none.
var errWell = errors.New("no error")

// ping asks Redis once, with more patience than a decision has: the error of a wrong address or password says
// so, where a decision only knows that its budget is over.
func (s *settings) ping(ctx context.Context) error {
	if s.redis == embedded {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := &redis.UniversalOptions{MaxRetries: -1, DialerRetries: 1, DialTimeout: patience}
	rdb, err := s.client(o)
	if err != nil {
		return err
	}
	defer rdb.Close()
	if err = rdb.Ping(ctx).Err(); err != nil {
		err = fmt.Errorf("%s: %s", strings.Join(o.Addrs, ","), words.Harmless(err.Error()))
	}
	return err
}

// connect returns the client of Redis, which may be in this process.
func connect(s *settings) (redis.UniversalClient, func(), error) {
	if s.redis != embedded {
		rdb, err := s.client(&redis.UniversalOptions{})
		return rdb, func() { _ = rdb.Close() }, err
	}
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // keys expire by the clock
	if err := m.Start(); err != nil {
		return nil, nil, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), ContextTimeoutEnabled: true})
	return rdb, func() { _ = rdb.Close(); m.Close() }, nil
}

// reloaded logs that the configuration has changed, or why it has not.
func (v *server) reloaded(err error) {
	if err != nil {
		v.log.Error("the configuration is unusable, the old one stays", "error", err)
		return
	}
	v.log.Info("the configuration has changed", "domains", v.service.Config().Domains())
}

// makeGRPC makes the server of gRPC.
func (v *server) makeGRPC() error {
	s := v.settings
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: s.MaxAge, MaxConnectionAgeGrace: s.MaxAgeGrace,
		}),
		// The default closes connections that a gateway tests more often than every 5 minutes.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: time.Nanosecond, PermitWithoutStream: true,
		}),
		// A new goroutine for each call would spend a fifth of the time on growing its stack.
		grpc.NumStreamWorkers(workers),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		// A connection that does not begin would hold up GracefulStop as long as this.
		grpc.ConnectionTimeout(beginning),
		grpc.MaxConcurrentStreams(mostStreams), grpc.MaxHeaderListSize(mostMetadata),
		grpc.MaxRecvMsgSize(mostMessage),
		grpc.ReadBufferSize(buffer), grpc.WriteBufferSize(buffer),
		grpc.InTapHandle(v.arrives), grpc.UnaryInterceptor(arrived),
	}
	if s.UseTLS {
		config, err := s.serverTLS()
		if err != nil {
			return err
		}
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	v.grpc, v.health = grpc.NewServer(options...), newHealthServer()
	pb.RegisterRateLimitServiceServer(v.grpc, v.service)
	healthpb.RegisterHealthServer(v.grpc, v.health)
	v.health.SetServingStatus("ratelimit", healthpb.HealthCheckResponse_SERVING)
	return nil
}

// listen opens all ports, and says what they serve.
func (v *server) listen(stderr io.Writer) error {
	s := v.settings
	if err := v.makeGRPC(); err != nil {
		return err
	}
	var err error
	if v.listener, err = listen(address(s.GRPCHost, s.GRPCPort), s.connections); err != nil {
		return err
	}
	go func() { v.failed <- v.grpc.Serve(v.listener) }()
	const serves = "envoy.service.ratelimit.v3.RateLimitService, grpc.health.v1"
	fmt.Fprintf(stderr, "gRPC    %v  %s\n", v.listener.Addr(), serves)
	metrics := http.NewServeMux()
	metrics.Handle("GET "+s.Path, promhttp.HandlerFor(v.service.Metrics(),
		promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes}))
	for _, web := range []struct {
		name, serves string
		connections  int
		server       *http.Server
	}{
		{"HTTP", "/check/DOMAIN?key=value, POST /json, /healthcheck", max(1, s.connections/4),
			&http.Server{Addr: address(s.Host, s.Port), Handler: v.public()}},
		{"metrics", s.Path, mostScrapers, &http.Server{Addr: s.Metrics, Handler: metrics}},
		{"debug", "/rlconfig, /state, /debug/pprof", mostDebuggers,
			&http.Server{Addr: s.debug, Handler: v.debug(), WriteTimeout: profiling}},
	} {
		at, err := v.listenWeb(web.server, web.connections)
		if err != nil {
			v.drain(false)
			return err
		}
		fmt.Fprintf(stderr, "%-7s %v  %s\n", web.name, at, web.serves)
		if web.name == "HTTP" {
			_, port, _ := net.SplitHostPort(at.String())
			if example := v.service.Config().Example(); example != "" {
				fmt.Fprintf(stderr, "\n  curl -i 'http://localhost:%s%s'\n\n", port, example)
			}
		}
	}
	return nil
}

func (v *server) listenWeb(web *http.Server, connections int) (net.Addr, error) {
	listener, err := listen(web.Addr, connections)
	if err != nil {
		return nil, err
	}
	v.serveWeb(web, listener)
	return listener.Addr(), nil
}

func (v *server) serveWeb(web *http.Server, listener net.Listener) {
	web.ReadTimeout, web.IdleTimeout, web.MaxHeaderBytes = reading, idle, mostHeader
	web.WriteTimeout = cmp.Or(web.WriteTimeout, writing)
	handler := web.Handler
	web.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v.leaving.Load() {
			// The client must not send its next request while Shutdown closes the idle connection.
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
	ws := &webServer{Server: web, listener: listener}
	web.ConnState = ws.note
	v.web = append(v.web, ws)
	go func() {
		if err := web.Serve(listener); !v.leaving.Load() && !errors.Is(err, http.ErrServerClosed) {
			v.failed <- err
		}
	}()
}

// serverTLS returns the certificate of the service, read anew for each connection, so that it may be renewed.
func (s *settings) serverTLS() (*tls.Config, error) {
	if _, err := tls.LoadX509KeyPair(s.Cert, s.Key); err != nil {
		return nil, fmt.Errorf("GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY: %w", err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
			return &pair, err
		},
	}
	if s.ClientCA != "" {
		pool, err := authorities(s.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("GRPC_CLIENT_TLS_CACERT: %w", err)
		}
		config.ClientCAs, config.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// public returns the handler of the HTTP port.
func (v *server) public() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", v.service.Handler())
	mux.HandleFunc("GET /healthcheck", func(w http.ResponseWriter, r *http.Request) {
		reply, err := v.health.Check(r.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
		if err != nil || reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "OK")
	})
	return mux
}

// debug returns the handler of the debug port.
func (v *server) debug() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rlconfig", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, v.service.Config().String())
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		h := v.service.Health()
		fmt.Fprintf(w, "degraded: %v\n", h.Degraded)
		if h.Degraded {
			fmt.Fprintf(w, "since: %v\ncause: %v\n", h.Since.Format(time.RFC3339), h.Cause)
		}
		fmt.Fprintf(w, "decided without Redis: %d\nunbooked permits: %d\n", h.Decided, h.Unbooked)
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// drain ends without losing a request: the health is bad first, so that balancers look elsewhere, and
// requests under way get their answer.
func (v *server) drain(gracefully bool) {
	if !gracefully {
		v.grpc.Stop()
		for _, web := range v.web {
			_ = web.Close()
		}
		return
	}
	v.log.Info("draining")
	v.leaving.Store(true)
	v.health.Shutdown()
	pause := time.NewTimer(leaving)
	defer pause.Stop()
	<-pause.C
	ctx, cancel := context.WithTimeout(context.Background(), draining)
	defer cancel()
	var ending sync.WaitGroup
	v.health.endWatches()
	ending.Go(func() {
		// GracefulStop closes connections that were just accepted.
		_ = v.listener.Close()
		pause.Reset(greeting)
		<-pause.C
		late := context.AfterFunc(ctx, v.grpc.Stop)
		v.grpc.GracefulStop()
		late()
	})
	for _, web := range v.web {
		ending.Go(func() {
			web.drain(ctx)
		})
	}
	ending.Wait()
}
