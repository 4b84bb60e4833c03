package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/spf13/pflag"
)

// A place is the address of Redis, and the settings of TLS for it.
type place struct {
	address           string
	tls               bool
	caCert, cert, key string

	dialer func(ctx context.Context, network, addr string) (net.Conn, error) // nil dials the address
}

// reachable bounds the wait for the first reply of a server: longer than any network needs, and short after
// a mistyped address.
const reachable = 2 * time.Second

func (p *place) flags(flags *pflag.FlagSet) {
	flags.StringVar(&p.address, "redis", "localhost:6379", `HOST:PORT or a URL (RRL_REDIS):
redis://[USER:PASSWORD@]HOST:PORT/DB, rediss:// with TLS, unix://PATH,
redis+cluster://HOST:PORT,HOST:PORT, redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB.
User and password may come from RRL_USER and RRL_PASSWORD, those of sentinels
from RRL_SENTINEL_USER and RRL_SENTINEL_PASSWORD`)
	flags.BoolVar(&p.tls, "tls", false, "use TLS (RRL_TLS=true)")
	flags.StringVar(&p.caCert, "cacert", "", "file with the certificates to trust (RRL_CACERT)")
	flags.StringVar(&p.cert, "cert", "", "file with the certificate of rrl (RRL_CERT)")
	flags.StringVar(&p.key, "key", "", "file with the key of that certificate (RRL_KEY)")
}

// fromEnvironment maps flags to the environment variables that also set them. The values do not become the
// defaults of the flags, because help prints defaults, and an address may hold a password.
var fromEnvironment = map[string]string{
	"redis": "RRL_REDIS", "tls": "RRL_TLS", "cacert": "RRL_CACERT", "cert": "RRL_CERT", "key": "RRL_KEY",
	"name-prefix": "RRL_NAME_PREFIX",
}

// setFromEnvironment sets flags that are not on the command line from their variables.
func setFromEnvironment(flags *pflag.FlagSet) error {
	for name, variable := range fromEnvironment {
		value := os.Getenv(variable)
		if value == "" || flags.Changed(name) {
			continue
		}
		if flags.Lookup(name).Value.Set(value) != nil { // text flags take any value
			return fmt.Errorf("%s is %q, must be true or false", variable, value)
		}
	}
	return nil
}

// open connects to Redis, and returns the client when Redis has replied.
func (p *place) open(ctx context.Context) (redis.UniversalClient, error) {
	opts, err := p.options()
	if err != nil {
		return nil, err
	}
	rdb := redis.NewUniversalClient(opts)
	ctx, cancel := context.WithTimeout(ctx, reachable)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot reach %s: %w", p.where(), err), rdb.Close())
	}
	return rdb, nil
}

// where returns the addresses for messages, without a password.
func (p *place) where() string {
	opts, err := p.options()
	if err != nil {
		return "Redis"
	}
	return "Redis at " + strings.Join(opts.Addrs, ",")
}

// options reads the flags. Errors do not show the address, because it may hold a password.
func (p *place) options() (*redis.UniversalOptions, error) {
	opts, err := parseAddress(p.address)
	if err != nil {
		return nil, err
	}
	opts.Username = cmp.Or(opts.Username, os.Getenv("RRL_USER"))
	opts.Password = cmp.Or(opts.Password, os.Getenv("RRL_PASSWORD"))
	opts.SentinelUsername = os.Getenv("RRL_SENTINEL_USER")
	opts.SentinelPassword = os.Getenv("RRL_SENTINEL_PASSWORD")
	if err := p.addTLS(opts); err != nil {
		return nil, err
	}
	if p.dialer != nil {
		opts.Dialer = p.dialer
	}
	// A user is waiting, and calls end with their context. An old server may lack the commands with which
	// go-redis introduces itself.
	opts.DialTimeout, opts.DialerRetries = reachable, 1
	opts.ContextTimeoutEnabled = true
	opts.Protocol = 2 // for servers before Redis 6
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return opts, nil
}

// parseAddress reads the value of --redis.
func parseAddress(address string) (*redis.UniversalOptions, error) {
	const want = "--redis must be HOST:PORT, as in localhost:6379, or a URL, as in redis://localhost:6379/0"
	if address == "" {
		return nil, fmt.Errorf("%s; it is empty", want)
	}
	if !strings.Contains(address, "://") && !strings.HasPrefix(address, "unix:") {
		address = "redis://" + address
	}
	scheme, rest, _ := strings.Cut(address, "://")
	base, kind, _ := strings.Cut(scheme, "+")
	var opts *redis.UniversalOptions
	var err error
	switch kind {
	case "cluster", "sentinel":
		opts, err = parseMany(base, kind, rest)
	default:
		opts, err = parseOne(address)
	}
	_, malformed := errors.AsType[*url.Error](err)
	switch {
	case malformed || err != nil && strings.Contains(address, "@"): // it may quote a piece of a password
		return nil, fmt.Errorf("%s; special characters of a password must be encoded, as in %%23 for #", want)
	case err != nil:
		return nil, fmt.Errorf("%s; %w", want, err)
	}
	return opts, nil
}

// parseOne reads the URL of one server.
func parseOne(address string) (*redis.UniversalOptions, error) {
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	opts := &redis.UniversalOptions{
		Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolSize: o.PoolSize,
	}
	if o.Network == "unix" {
		opts.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", addr)
		}
	}
	return opts, nil
}

// parseMany reads SCHEME+cluster://A,B and SCHEME+sentinel://A,B/MASTER/DB.
func parseMany(scheme, kind, rest string) (*redis.UniversalOptions, error) {
	authority, path, _ := strings.Cut(rest, "/")
	account, hosts := "", authority
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		account, hosts = authority[:i+1], authority[i+1:]
	}
	first, others, _ := strings.Cut(hosts, ",")
	master, db, _ := strings.Cut(path, "/")
	if kind == "cluster" {
		db = path
	}
	opts, err := parseOne(scheme + "://" + account + first + "/" + db)
	if err != nil {
		return nil, err
	}
	for host := range strings.SplitSeq(others, ",") {
		if host != "" {
			o, err := parseOne(scheme + "://" + host)
			if err != nil {
				return nil, err
			}
			opts.Addrs = append(opts.Addrs, o.Addrs...)
		}
	}
	switch {
	case kind == "cluster" && db != "" && db != "0":
		return nil, errors.New("a cluster has no database but 0")
	case kind == "sentinel" && master == "":
		return nil, errors.New("the name of the master is missing, " +
			"as in redis+sentinel://localhost:26379/mymaster/0")
	}
	if opts.IsClusterMode = kind == "cluster"; !opts.IsClusterMode {
		opts.MasterName = master
	}
	return opts, nil
}

// addTLS adds the certificates.
func (p *place) addTLS(opts *redis.UniversalOptions) error {
	if !p.tls && p.caCert == "" && p.cert == "" && p.key == "" {
		return nil
	}
	if opts.TLSConfig == nil {
		opts.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if len(opts.Addrs) == 1 {
			opts.TLSConfig.ServerName, _, _ = net.SplitHostPort(opts.Addrs[0])
		}
	}
	if p.caCert != "" {
		pem, err := os.ReadFile(p.caCert)
		if err != nil {
			return fmt.Errorf("--cacert: %w", err)
		}
		opts.TLSConfig.RootCAs = x509.NewCertPool()
		if !opts.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("--cacert: no certificate in %s", p.caCert)
		}
	}
	if (p.cert == "") != (p.key == "") {
		return errors.New("--cert and --key need one another")
	}
	if p.cert != "" {
		pair, err := tls.LoadX509KeyPair(p.cert, p.key)
		if err != nil {
			return fmt.Errorf("--cert and --key: %w", err)
		}
		opts.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	return nil
}
