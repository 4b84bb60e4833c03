package main

import (
	"slices"
	"strings"
	"testing"
)

func TestAddressOfRedis(t *testing.T) {
	for address, want := range map[string]struct {
		addrs   string
		db      int
		cluster bool
		master  string
	}{
		"localhost:6379":                                {addrs: "localhost:6379"},
		"localhost":                                     {addrs: "localhost:6379"},
		"[::1]:7000":                                    {addrs: "[::1]:7000"},
		"localhost:6379/3":                              {addrs: "localhost:6379", db: 3},
		"redis://localhost:6379/0":                      {addrs: "localhost:6379"},
		"rediss://x:1":                                  {addrs: "x:1"},
		":secret@localhost:6379":                        {addrs: "localhost:6379"},
		"unix:/tmp/redis.sock":                          {addrs: "/tmp/redis.sock"},
		"unix:///tmp/redis.sock":                        {addrs: "/tmp/redis.sock"},
		"redis+cluster://a:1,b:2,c":                     {addrs: "a:1 b:2 c:6379", cluster: true},
		"rediss+cluster://me:secret@a:1":                {addrs: "a:1", cluster: true},
		"redis+sentinel://a:26379,b:26379/mymaster":     {addrs: "a:26379 b:26379", master: "mymaster"},
		"redis+sentinel://me:secret@a:26379/mymaster/2": {addrs: "a:26379", master: "mymaster", db: 2},
	} {
		opts, err := parseAddress(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if !slices.Equal(opts.Addrs, strings.Fields(want.addrs)) || opts.DB != want.db ||
			opts.IsClusterMode != want.cluster || opts.MasterName != want.master ||
			(opts.TLSConfig != nil) != strings.HasPrefix(address, "rediss") ||
			(opts.Password == "secret") != strings.Contains(address, "secret") {
			t.Errorf("%s: %+v", address, opts)
		}
	}
}

// The error of a bad address does not show a password that may be in it.
func TestBadAddressOfRedis(t *testing.T) {
	for _, address := range []string{"", "://", "redis://:secret@localhost:port", ":secret@localhost:6379/x",
		"http://:secret@x", "%secret", "a secret", "redis+cluster://me:secret@a:1/1",
		"redis+what://:secret@a:1", "redis+sentinel://:secret@a:1", "redis+sentinel://:secret@a:1/m/x",
		"redis+cluster://:secret@a,b:port"} {
		_, err := parseAddress(address)
		if err == nil || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), "HOST:PORT") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
