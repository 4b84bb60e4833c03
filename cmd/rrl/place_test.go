package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Each address has its hosts, database, kind and name of a master.
func TestAddressOfRedis(t *testing.T) {
	for address, want := range map[string]string{
		"localhost:6379":                                "[localhost:6379] 0 false ",
		"localhost":                                     "[localhost:6379] 0 false ",
		"[::1]:7000":                                    "[[::1]:7000] 0 false ",
		"localhost:6379/3":                              "[localhost:6379] 3 false ",
		"redis://localhost:6379/0":                      "[localhost:6379] 0 false ",
		"rediss://x:1":                                  "[x:1] 0 false ",
		":secret@localhost:6379":                        "[localhost:6379] 0 false ",
		"unix:/tmp/redis.sock":                          "[/tmp/redis.sock] 0 false ",
		"unix:///tmp/redis.sock":                        "[/tmp/redis.sock] 0 false ",
		"redis+cluster://a:1,b:2,c":                     "[a:1 b:2 c:6379] 0 true ",
		"rediss+cluster://me:secret@a:1":                "[a:1] 0 true ",
		"redis+sentinel://a:26379,b:26379/mymaster":     "[a:26379 b:26379] 0 false mymaster",
		"redis+sentinel://me:secret@a:26379/mymaster/2": "[a:26379] 2 false mymaster",
	} {
		o := redistest.Must(parseAddress(address))(t)
		got := fmt.Sprintf("%v %d %v %s", o.Addrs, o.DB, o.IsClusterMode, o.MasterName)
		if got != want || (o.TLSConfig != nil) != strings.HasPrefix(address, "rediss") ||
			(o.Password == "secret") != strings.Contains(address, "secret") {
			t.Errorf("%s: %s, want %s; %+v", address, got, want, o)
		}
	}
}

// The error of a bad address does not show its password.
func TestBadAddressOfRedis(t *testing.T) {
	for _, address := range []string{"", "://", "redis://:secret@localhost:port", ":secret@localhost:6379/x",
		"http://:secret@x", "%secret", "a secret", "redis+cluster://me:secret@a:1/1",
		"redis+what://:secret@a:1", "redis+sentinel://:secret@a:1", "redis+sentinel://:secret@a:1/m/x",
		"redis+cluster://:secret@a,b:port", "redis://u:x%secret@a", "redis://:x#secret@a",
		"redis+cluster://u:secret/x@a:1", "redis://:secret", "redis://me:secret/0",
		"redis+cluster://a,me:secret", ":secret"} {
		_, err := parseAddress(address)
		if err == nil || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), "HOST:PORT") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// rrl reaches servers of each kind, by flags, by URLs and by the environment.
func TestPlaces(t *testing.T) {
	pki := redistest.NewPKI(t)
	args, secure := pki.Args(t)
	one := redistest.Start(t, args...)
	file := func(name string) string { return filepath.Join(pki.Dir, name) }
	redistest.Allow(t, "app", []string{"on", ">secret", "~*", "+@all"}, one.Admin())
	redistest.NoError(t, one.Admin().Do(t.Context(), "ACL", "SETUSER", "default", "off").Err())
	sentinel := redistest.StartSentinel(t)
	withTLS := []string{"--cacert", file("ca.pem"), "--cert", file("client.pem"), "--key",
		file("client-key.pem")}
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		code int
		says string
	}{
		{"user and password in the URL", nil, []string{"--redis", "redis://app:secret@" + one.Addr}, 0, ""},
		{"user and password by the environment", map[string]string{
			"RRL_REDIS": one.Addr, "RRL_USER": "app", "RRL_PASSWORD": "secret",
		}, nil, 0, ""},
		{"a wrong password", map[string]string{"RRL_USER": "app", "RRL_PASSWORD": "wrong-secret"},
			[]string{"--redis", one.Addr}, 2, "WRONGPASS"},
		{"TLS by flags", nil, append(withTLS, "--tls", "--redis", "app:secret@"+secure), 0, ""},
		{"TLS by the URL", nil, append(withTLS, "--redis", "rediss://app:secret@"+secure), 0, ""},
		{"TLS by the environment", map[string]string{
			"RRL_REDIS": secure, "RRL_USER": "app", "RRL_PASSWORD": "secret", "RRL_TLS": "true",
			"RRL_CACERT": file("ca.pem"), "RRL_CERT": file("client.pem"), "RRL_KEY": file("client-key.pem"),
		}, nil, 0, ""},
		{"TLS without an authority", nil, []string{"--tls", "--redis", secure}, 2, "certificate"},
		{"a missing file", nil, []string{"--redis", secure, "--cacert", "nothing"}, 2,
			"--cacert: open nothing"},
		{"a key without a certificate", nil, []string{"--redis", secure, "--key", file("ca.pem")}, 2,
			"--cert and --key need one another"},
		{"no certificates in the file", nil, []string{"--redis", secure, "--cacert", file("ca-key.pem")}, 2,
			"--cacert: no certificate in "},
		{"Sentinel", nil, []string{
			"--redis", "redis+sentinel://" + strings.Join(sentinel.Addrs, ",") + "/" + sentinel.MasterName,
		}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			code, stdout, stderr := rrl(t.Context(), append([]string{"list"}, c.args...)...)
			if code != c.code || !strings.Contains(stderr, c.says) || strings.Contains(stderr, "secret") {
				t.Errorf("code %d, printed %s%s", code, stdout, stderr)
			}
		})
	}
}

// A prefix, and the user and password of sentinels, come by the environment.
func TestPrefixAndSentinelsOfTheEnvironment(t *testing.T) {
	for _, name := range []string{"RRL_SENTINEL_USER", "RRL_SENTINEL_PASSWORD"} {
		t.Setenv(name, "of "+name)
	}
	t.Setenv("RRL_NAME_PREFIX", "app:")
	o := redistest.Must((&place{address: "redis+sentinel://me:secret@a/main"}).options())(t)
	got := strings.Join([]string{o.Username, o.Password, o.SentinelUsername, o.SentinelPassword}, ", ")
	if got != "me, secret, of RRL_SENTINEL_USER, of RRL_SENTINEL_PASSWORD" {
		t.Error(got)
	}
	server := redistest.Start(t)
	steps(t, server.Addr, step{"set api 5 1h", 0, `"api": set`, ""})
	if n := server.Admin().Exists(t.Context(), "app:api").Val(); n != 1 {
		t.Error("there is no app:api")
	}
}

// No output has a password: neither that of a variable nor one at a wrong place. A variable with a bad value
// is an error.
func TestVariables(t *testing.T) {
	t.Setenv("RRL_REDIS", "redis://u:secret@127.0.0.1:1")
	for _, args := range []string{
		"--help", "list --help", "list", "help list",
		// Addresses where a command, flag, number or name is expected.
		"redis://:secret@h", ":secret@h:1", "--redis://:secret@h", "-x=u:secret@h", "serve u:secret@h",
		"list --tls=redis://:secret@h", "watch --every rediss://u:secret@h", "acquire x u:secret@h",
		"set x redis://:secret@h 1s", "list --cacert redis://:secret@h",
	} {
		_, stdout, stderr := rrl(t.Context(), strings.Fields(args)...)
		if strings.Contains(stdout+stderr, "secret") {
			t.Errorf("%s: %s%s", args, stdout, stderr)
		}
	}
	t.Setenv("RRL_TLS", "on")
	code, _, stderr := rrl(t.Context(), "list")
	if code != exitError || stderr != "rrl: RRL_TLS is \"on\", must be true or false\n" {
		t.Errorf("%d: %s", code, stderr)
	}
}
