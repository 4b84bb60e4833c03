package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// client completes the options of a client of Redis, which is a server of its own, and returns the client.
// Errors show no address, because it may hold a password.
func (s *settings) client(o *redis.UniversalOptions) (redis.UniversalClient, error) {
	entries := []string{s.redis}
	switch strings.ToUpper(s.RedisType) {
	case "SENTINEL":
		entries = strings.Split(s.redis, ",")
		o.MasterName, entries = strings.TrimSpace(entries[0]), entries[1:]
		if len(entries) == 0 || strings.ContainsAny(o.MasterName, ":/@") {
			return nil, errors.New("--redis or REDIS_URL must be MASTER,SENTINEL,... with the " +
				"REDIS_TYPE SENTINEL")
		}
	case "CLUSTER":
		o.IsClusterMode, entries = true, strings.Split(s.redis, ",")
	}
	var first endpoint
	for i, entry := range entries {
		e, err := parseEndpoint(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("address %d of --redis or REDIS_URL %w", i+1, err)
		}
		o.Addrs = append(o.Addrs, e.address)
		if e.address = ""; i == 0 {
			first = e
		} else if e != first {
			return nil, fmt.Errorf("address %d of --redis or REDIS_URL must have the scheme, user, "+
				"password and database of the first", i+1)
		}
	}
	if o.DB = first.db; o.IsClusterMode && o.DB != 0 {
		return nil, fmt.Errorf("the database of --redis or REDIS_URL is %d, must be 0 with the REDIS_TYPE "+
			"CLUSTER", o.DB)
	}
	o.ContextTimeoutEnabled, o.PoolSize = true, s.RedisPool
	o.Username, o.Password = userAndPassword(s.RedisAuth)
	o.SentinelUsername, o.SentinelPassword = userAndPassword(s.SentinelAuth)
	user, password := &o.Username, &o.Password
	if o.MasterName != "" {
		user, password = &o.SentinelUsername, &o.SentinelPassword
	}
	*user, *password = cmp.Or(*user, first.user), cmp.Or(*password, first.password)
	if s.RedisTLS || first.tls {
		config, err := s.redisTLS()
		if err != nil {
			return nil, err
		}
		o.TLSConfig = config
	}
	return redis.NewUniversalClient(o), nil
}

// userAndPassword returns user and password of PASSWORD or USER:PASSWORD.
func userAndPassword(text string) (user, password string) {
	user, password, both := strings.Cut(text, ":")
	if !both {
		return "", text
	}
	return user, password
}

// An endpoint is one address of REDIS_URL, and what its URL says besides.
type endpoint struct {
	address, user, password string
	db                      int
	tls                     bool
}

var (
	errNoAddress = errors.New("must be HOST:PORT, or a URL as in redis://USER:PASSWORD@HOST:PORT/DB, with " +
		"special characters of the password encoded, as in %23 for #")
	errNoDatabase = errors.New("must have a number from 0 as its database")
)

// parseEndpoint reads an address. As the reference service does, it takes user, password and database from
// the query of a URL as well.
func parseEndpoint(text string) (e endpoint, err error) {
	e.address = text
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Fragment != "" {
			return e, errNoAddress
		}
		q := u.Query()
		e.address, e.tls = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379")), u.Scheme == "rediss"
		e.user = cmp.Or(u.User.Username(), q.Get("username"))
		e.password, _ = u.User.Password()
		e.password = cmp.Or(e.password, q.Get("password"))
		db := cmp.Or(strings.TrimPrefix(u.Path, "/"), q.Get("db"), "0")
		if e.db, err = strconv.Atoi(db); err != nil || e.db < 0 {
			return e, errNoDatabase
		}
		for _, known := range []string{"username", "password", "db"} {
			q.Del(known)
		}
		if len(q) > 0 {
			return e, errors.New("has an unknown option, must have none but username, password and db")
		}
	}
	host, port, err := net.SplitHostPort(e.address)
	_, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || strings.ContainsAny(host, "@/,") {
		return e, errNoAddress
	}
	return e, nil
}

// redisTLS returns the settings of TLS for Redis.
func (s *settings) redisTLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.RedisCert != "" || s.RedisKey != "" {
		pair, err := tls.LoadX509KeyPair(s.RedisCert, s.RedisKey)
		if err != nil {
			return nil, fmt.Errorf("REDIS_TLS_CLIENT_CERT and REDIS_TLS_CLIENT_KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if s.RedisCA != "" {
		pool, err := authorities(s.RedisCA)
		if err != nil {
			return nil, fmt.Errorf("REDIS_TLS_CACERT: %w", err)
		}
		config.RootCAs = pool
	}
	if s.RedisAnyName {
		// The standard library verifies all or nothing: this is the rest of it, without the name.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error {
			o := x509.VerifyOptions{Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
			for _, c := range state.PeerCertificates[1:] {
				o.Intermediates.AddCert(c)
			}
			_, err := state.PeerCertificates[0].Verify(o)
			return err
		}
	}
	return config, nil
}

// authorities returns the certificates of a file.
func authorities(file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return pool, nil
}
