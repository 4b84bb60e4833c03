package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Addresses of Redis are taken in all forms that the reference service takes, and no error shows a password.
func TestAddressesOfRedis(t *testing.T) {
	const one, many, guarded = "SINGLE", "CLUSTER", "SENTINEL"
	for _, c := range []struct{ kind, url, auth, sentinelAuth, want string }{
		{"single", "h:1", "", "", `"" [h:1] : 0 : tls false`},
		{one, "h:1", "hunter2", "", `"" [h:1] :hunter2 0 : tls false`},
		{one, "h:1", "ann:hun:ter2", "", `"" [h:1] ann:hun:ter2 0 : tls false`},
		{one, "redis://h", "", "", `"" [h:6379] : 0 : tls false`},
		{one, "redis://:hunter2@h:1/3", "", "", `"" [h:1] :hunter2 3 : tls false`},
		{one, "rediss://ann:h%23,2@[::1]:1", "", "", `"" [[::1]:1] ann:h#,2 0 : tls true`},
		{one, "redis://h:1?db=2&username=ann&password=hunter2", "", "", `"" [h:1] ann:hunter2 2 : tls false`},
		{one, "redis://ann:hunter2@h:1", "bob:other", "", `"" [h:1] bob:other 0 : tls false`},
		{many, "a:1, b:2", "hunter2", "", `"" [a:1 b:2] :hunter2 0 : tls false`},
		{many, "rediss://:hunter2@a:1,rediss://:hunter2@b:2", "", "", `"" [a:1 b:2] :hunter2 0 : tls true`},
		{guarded, "main,a:1,b:2", "hunter2", "sam:s", `"main" [a:1 b:2] :hunter2 0 sam:s tls false`},
		{guarded, "main,redis://sam:s@a:1/4", "hunter2", "", `"main" [a:1] :hunter2 4 sam:s tls false`},

		{one, "h", "", "", "address 1 of --redis or REDIS_URL must be HOST:PORT, or a URL as in redis://"},
		{one, "h:x", "", "", "must be HOST:PORT"},
		{one, "a:1,b:2", "", "", "must be HOST:PORT"},
		{one, "hunter2@h:1", "", "", "must be HOST:PORT"},
		{one, "ann:hunter2@h:1", "", "", "must be HOST:PORT"},
		{one, "redis://:hunter2", "", "", "must be HOST:PORT"},
		{one, "redis://ann:hun#ter2@h:1", "", "", "must be HOST:PORT"},
		{one, "redis://ann:1#hunter2@h:1", "", "", "must be HOST:PORT"},
		{one, "redis://ann:1/hunter2@h:1", "", "", "must have a number from 0 as its database"},
		{one, "redis://ann:1?hunter2@h:1", "", "", "must have none but username, password and db"},
		{one, "unix:///hunter2", "", "", "must be HOST:PORT"},
		{many, "redis://:hunter2@a:1,b:2", "", "",
			"address 2 of --redis or REDIS_URL must have the scheme, user"},
		{many, "redis://:hunter2@a:1/2", "", "", "the database of --redis or REDIS_URL is 2, must be 0"},
		{guarded, "redis://:hunter2@a:1,b:2", "", "", "REDIS_URL must be MASTER,SENTINEL,..."},
		{guarded, "main", "", "", "REDIS_URL must be MASTER,SENTINEL,..."},
	} {
		s := redistest.Must(readSettings(map[string]string{
			"REDIS_TYPE": c.kind, "REDIS_URL": c.url, "REDIS_AUTH": c.auth,
			"REDIS_SENTINEL_AUTH": c.sentinelAuth,
		}, nil, io.Discard))(t)
		var o redis.UniversalOptions
		rdb, err := s.client(&o)
		if err == nil {
			_ = rdb.Close()
			got := fmt.Sprintf("%q %v %s:%s %d %s:%s tls %v", o.MasterName, o.Addrs, o.Username, o.Password,
				o.DB, o.SentinelUsername, o.SentinelPassword, o.TLSConfig != nil)
			if got != c.want {
				t.Errorf("%s: %s, want %s", c.url, got, c.want)
			}
			continue
		}
		if text := err.Error(); !strings.Contains(text, c.want) || strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s, want %s", c.url, text, c.want)
		}
	}
}

// A server whose certificate is of another authority gets no password, whatever its name. Without the
// verification of names, one of the right authority has any name.
func TestTheCertificateOfRedisIsVerified(t *testing.T) {
	ours, foreign := redistest.NewPKI(t), redistest.NewPKI(t)
	args, address := ours.Args(t)
	redistest.Start(t, args...)
	_, port, _ := strings.Cut(address, ":")
	for _, c := range []struct {
		host, anyName string
		trusted       *redistest.PKI
		want          string
	}{
		{"127.0.0.1", "false", ours, "<nil>"},
		{"localhost", "false", ours, "certificate is not valid for any names"},
		{"localhost", "true", ours, "<nil>"},
		{"127.0.0.1", "true", foreign, "certificate signed by unknown authority"},
		{"127.0.0.1", "false", foreign, "certificate signed by unknown authority"},
		{"127.0.0.1", "true", nil, "certificate signed by unknown authority"},
	} {
		environment := map[string]string{
			"REDIS_URL": "rediss://" + c.host + ":" + port, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION": c.anyName,
			"REDIS_TLS_CLIENT_CERT": filepath.Join(ours.Dir, "client.pem"),
			"REDIS_TLS_CLIENT_KEY":  filepath.Join(ours.Dir, "client-key.pem"),
		}
		if c.trusted != nil {
			environment["REDIS_TLS_CACERT"] = filepath.Join(c.trusted.Dir, "ca.pem")
		}
		s := redistest.Must(readSettings(environment, nil, io.Discard))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := s.ping(ctx); !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		cancel()
	}
}
