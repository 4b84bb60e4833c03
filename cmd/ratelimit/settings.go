package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/redisson-go/rratelimiter/cmd/ratelimit/rls"
)

// settings are the environment variables of the reference service that mean the same here, and the flags,
// which go before them.
type settings struct {
	Host      string `env:"HOST"`
	Port      int    `env:"PORT" envDefault:"8080"`
	GRPCHost  string `env:"GRPC_HOST"`
	GRPCPort  int    `env:"GRPC_PORT" envDefault:"8081"`
	DebugHost string `env:"DEBUG_HOST" envDefault:"127.0.0.1"`
	DebugPort int    `env:"DEBUG_PORT" envDefault:"6070"`
	Metrics   string `env:"PROMETHEUS_ADDR" envDefault:":9090"`
	Path      string `env:"PROMETHEUS_PATH" envDefault:"/metrics"`

	UseTLS       bool          `env:"GRPC_SERVER_USE_TLS"`
	Cert         string        `env:"GRPC_SERVER_TLS_CERT"`
	Key          string        `env:"GRPC_SERVER_TLS_KEY"`
	ClientCA     string        `env:"GRPC_CLIENT_TLS_CACERT"`
	MaxAge       time.Duration `env:"GRPC_MAX_CONNECTION_AGE" envDefault:"24h"`
	MaxAgeGrace  time.Duration `env:"GRPC_MAX_CONNECTION_AGE_GRACE" envDefault:"1h"`
	LogLevel     string        `env:"LOG_LEVEL" envDefault:"INFO"`
	LogFormat    string        `env:"LOG_FORMAT" envDefault:"text"`
	RuntimeRoot  string        `env:"RUNTIME_ROOT" envDefault:"/srv/runtime_data/current"`
	Subdirectory string        `env:"RUNTIME_SUBDIRECTORY"`
	AppDirectory string        `env:"RUNTIME_APPDIRECTORY" envDefault:"config"`
	Merge        bool          `env:"MERGE_DOMAIN_CONFIG"`
	Shadow       bool          `env:"SHADOW_MODE"`
	Quota        bool          `env:"QUOTA_MODE"`
	Metadata     bool          `env:"RESPONSE_DYNAMIC_METADATA"`
	Headers      bool          `env:"LIMIT_RESPONSE_HEADERS_ENABLED"`
	Limit        string        `env:"LIMIT_LIMIT_HEADER"`
	Remaining    string        `env:"LIMIT_REMAINING_HEADER"`
	Reset        string        `env:"LIMIT_RESET_HEADER"`
	NearRatio    float64       `env:"NEAR_LIMIT_RATIO" envDefault:"0.8"`
	Prefix       string        `env:"CACHE_KEY_PREFIX"`
	Calendar     string        `env:"CALENDAR_ZONE"`

	RedisSocket  string `env:"REDIS_SOCKET_TYPE"`
	RedisType    string `env:"REDIS_TYPE" envDefault:"SINGLE"`
	RedisURL     string `env:"REDIS_URL" envDefault:"localhost:6379"`
	RedisAuth    string `env:"REDIS_AUTH"`
	SentinelAuth string `env:"REDIS_SENTINEL_AUTH"`
	RedisPool    int    `env:"REDIS_POOL_SIZE"`
	RedisTLS     bool   `env:"REDIS_TLS"`
	RedisCert    string `env:"REDIS_TLS_CLIENT_CERT"`
	RedisKey     string `env:"REDIS_TLS_CLIENT_KEY"`
	RedisCA      string `env:"REDIS_TLS_CACERT"`
	RedisAnyName bool   `env:"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"`

	// Settings that name another service than this one.
	ConfigType string `env:"CONFIG_TYPE" envDefault:"FILE"`
	Backend    string `env:"BACKEND_TYPE" envDefault:"redis"`
	PerSecond  bool   `env:"REDIS_PERSECOND"`
	SocketPath string `env:"GRPC_UDS"`
	ClientSAN  string `env:"GRPC_CLIENT_TLS_SAN"`

	config      string
	redis       string
	debug       string
	connections int
	budget      time.Duration
	lease       time.Duration
	zone        *time.Location // of Calendar
	version     bool
}

// embedded is the --redis that needs no server.
const embedded = "embedded"

// readSettings reads the environment and the arguments.
func readSettings(environment map[string]string, args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	if err := env.ParseWithOptions(s, env.Options{Environment: environment}); err != nil {
		return nil, named(err, environment)
	}
	flags := flag.NewFlagSet("ratelimit", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // a wrong value may be a URL with a password, and is printed at the end
	flags.StringVar(&s.config, "config", "",
		"`FILE` or directory with the limits; RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/config")
	flags.StringVar(&s.redis, "redis", "",
		"`HOST:PORT` or URL of Redis, or embedded for one inside of this process; REDIS_URL")
	flags.DurationVar(&s.budget, "budget", 15*time.Millisecond, "`DURATION` that a decision waits for Redis")
	flags.DurationVar(&s.lease, "lease", 0,
		"longest `DURATION` for which permits of a busy limit are taken ahead; 0: each decision asks Redis")
	flags.StringVar(&s.Calendar, "calendar", s.Calendar,
		"time `ZONE` in which limits of a day or longer begin at midnight, as Europe/Berlin; CALENDAR_ZONE")
	flags.IntVar(&s.Port, "http", s.Port, "`PORT` of HTTP, 0 for any; PORT")
	flags.IntVar(&s.GRPCPort, "grpc", s.GRPCPort, "`PORT` of gRPC, 0 for any; GRPC_PORT")
	flags.StringVar(&s.debug, "debug", strconv.Itoa(s.DebugPort),
		"`HOST:PORT` of configuration, state and profiles, or PORT, 0 for any; DEBUG_HOST, DEBUG_PORT")
	flags.StringVar(&s.Metrics, "metrics", s.Metrics, "`HOST:PORT` of /metrics; PROMETHEUS_ADDR")
	flags.IntVar(&s.connections, "connections", 1000,
		"most connections of gRPC, a `NUMBER`, and a quarter of that of HTTP; further ones wait")
	flags.BoolVar(&s.version, "version", false, "print the version, and end")
	for name, bound := range map[string]string{
		"budget": "a duration such as 15ms", "lease": "a duration such as 1s",
		"http": portBound, "grpc": portBound, "connections": connectionsBound,
	} {
		f := flags.Lookup(name)
		f.Value = bounded{f.Value, bound}
	}
	if err := flags.Parse(args); err != nil || s.version {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(stderr)
			flags.Usage()
		}
		return s, err
	}
	if flags.NArg() > 0 {
		// It may be a URL with a password.
		return nil, errors.New("an argument has no flag, must be as --redis ADDRESS")
	}
	if s.config == "" {
		s.config = filepath.Join(s.RuntimeRoot, s.Subdirectory, s.AppDirectory)
	}
	if s.redis == "" {
		s.redis = s.RedisURL
	}
	if !strings.Contains(s.debug, ":") {
		s.debug = net.JoinHostPort(s.DebugHost, s.debug)
	}
	if s.Calendar != "" {
		s.zone, _ = time.LoadLocation(s.Calendar)
	}
	return s, s.validate()
}

// portBound and connectionsBound say what a setting must be.
const portBound, connectionsBound = "a port from 0 to 65535", "a number from 1"

// A bounded is the value of a flag whose error says what it must be.
type bounded struct {
	flag.Value
	bound string
}

// String implements flag.Value, also for the zero value, which flag prints.
func (b bounded) String() string {
	if b.Value == nil {
		return ""
	}
	return b.Value.String()
}

// Set implements flag.Value.
func (b bounded) Set(text string) error {
	if b.Value.Set(text) != nil {
		return errors.New("must be " + b.bound)
	}
	return nil
}

// named replaces the fields in the errors of package env by the variables that set them.
func named(err error, environment map[string]string) error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}
	errs := slices.Clone(all.Errors)
	for i, err := range errs {
		var wrong env.ParseError
		if !errors.As(err, &wrong) {
			continue
		}
		if field, ok := reflect.TypeFor[settings]().FieldByName(wrong.Name); ok {
			name := field.Tag.Get("env")
			errs[i] = fmt.Errorf("%s is %q, must be of type %v", name, environment[name], wrong.Type)
		}
	}
	return errors.Join(errs...)
}

// validate returns an error for settings out of their bounds, and for those that name another service than
// this one, because to ignore these would be worse.
func (s *settings) validate() error {
	_, isLevel := levels[strings.ToUpper(s.LogLevel)]
	redisType := strings.ToUpper(s.RedisType)
	var all []error
	for _, setting := range []struct {
		bad                bool
		name, value, bound string
	}{
		{s.ConfigType != "FILE", "CONFIG_TYPE", s.ConfigType,
			"FILE: configuration by xDS is not supported yet"},
		{s.Backend != "redis", "BACKEND_TYPE", s.Backend, "redis"},
		{s.RedisSocket != "" && s.RedisSocket != "tcp", "REDIS_SOCKET_TYPE", s.RedisSocket, "tcp"},
		{s.PerSecond, "REDIS_PERSECOND", "true", "false: all limits live in one Redis"},
		{s.SocketPath != "", "GRPC_UDS", s.SocketPath, "empty: gRPC is served by TCP"},
		{s.ClientSAN != "", "GRPC_CLIENT_TLS_SAN", s.ClientSAN, "empty: clients are known by their CA only"},
		{s.UseTLS != (s.Cert != "" && s.Key != ""), "GRPC_SERVER_USE_TLS", strconv.FormatBool(s.UseTLS),
			"true with GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY, otherwise false"},
		{redisType != "SINGLE" && redisType != "SENTINEL" && redisType != "CLUSTER",
			"REDIS_TYPE", s.RedisType, "SINGLE, SENTINEL or CLUSTER"},
		{!strings.HasPrefix(s.Path, "/") || path.Clean(s.Path) != s.Path ||
			strings.ContainsAny(s.Path, "{} ?#"), "PROMETHEUS_PATH", s.Path, "a path such as /metrics"},
		{!(s.NearRatio > 0 && s.NearRatio <= 1), "NEAR_LIMIT_RATIO", fmt.Sprint(s.NearRatio),
			"above 0 and at most 1"},
		{s.Calendar != "" && s.zone == nil, "--calendar or CALENDAR_ZONE", s.Calendar,
			"a time zone such as Europe/Berlin"},
		{!isAddress(address("", s.Port)), "--http or PORT", strconv.Itoa(s.Port), portBound},
		{!isAddress(address("", s.GRPCPort)), "--grpc or GRPC_PORT", strconv.Itoa(s.GRPCPort), portBound},
		{!isAddress(s.debug), "--debug, or DEBUG_HOST and DEBUG_PORT,", s.debug, "HOST:PORT"},
		{!isAddress(s.Metrics), "--metrics or PROMETHEUS_ADDR", s.Metrics, "HOST:PORT"},
		{s.connections < 1, "--connections", strconv.Itoa(s.connections), connectionsBound},
		{s.RedisPool < 0, "REDIS_POOL_SIZE", strconv.Itoa(s.RedisPool), "at least 0"},
		{!isLevel, "LOG_LEVEL", s.LogLevel, "TRACE, DEBUG, INFO, WARN, ERROR, FATAL or PANIC"},
	} {
		if setting.bad {
			all = append(all, fmt.Errorf("%s is %q, must be %s", setting.name, setting.value, setting.bound))
		}
	}
	return errors.Join(all...)
}

// isAddress reports whether a text is HOST:PORT. The host may be empty.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}

// levels are those of the reference service. Nothing is logged at FATAL and PANIC.
var levels = map[string]slog.Level{
	"TRACE": slog.LevelDebug, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn,
	"WARNING": slog.LevelWarn, "ERROR": slog.LevelError, "FATAL": 12, "PANIC": 12,
}

// flagOf replaces the fields of rls.Options that rls.New may refuse by their flags.
var flagOf = strings.NewReplacer(": Budget is", ": --budget is", ": Lease is", ": --lease is")

func (s *settings) source() rls.Source { return rls.Source(s.config) }

func (s *settings) options() rls.Options {
	return rls.Options{
		Prefix: s.Prefix, Budget: s.budget, Lease: s.lease, Calendar: s.zone, Merge: s.Merge,
		Shadow: s.Shadow, Quota: s.Quota, Headers: s.Headers,
		LimitHeader: s.Limit, RemainingHeader: s.Remaining, ResetHeader: s.Reset,
		Metadata: s.Metadata, NearRatio: s.NearRatio,
	}
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
