package clusters_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Everything works over TLS with a certificate on either side, for a user that has the rights of docs/keys.md
// alone. Without the certificate nothing does, and the error says why.
func TestAllWorksOverTLS(t *testing.T) {
	pki := redistest.NewPKI(t)
	args, addr := pki.Args(t)
	s := redistest.Start(t, append(args, "--notify-keyspace-events", "KEA")...)
	client := func(shows bool) *redis.Client {
		return redis.NewClient(&redis.Options{
			Addr: addr, TLSConfig: pki.Config(shows), DialerRetries: 1, MaxRetries: 1,
			Username: "app", Password: "secret"})
	}
	t.Run("a user with few rights", func(t *testing.T) {
		rdb := client(true)
		t.Cleanup(func() { _ = rdb.Close() })
		redistest.Allow(t, "app", append(rule(t, ruleOfAll), channelOfGroup), s.Admin())
		g := &server{T: t, look: s.Admin(), user: rdb, nodes: []*redis.Client{s.Admin()}, name: "api"}
		if failed, denied := g.all(); len(failed)+len(denied) > 0 {
			t.Errorf("these fail: %v; denied are %q", failed, denied)
		}
		if proto := s.Admin().ClientList(t.Context()).Val(); !strings.Contains(proto, "laddr="+addr) {
			t.Errorf("no client is connected to the port of TLS:\n%s", proto)
		}
	})
	t.Run("everything", func(t *testing.T) {
		NoError(t, s.Admin().Do(t.Context(), "ACL", "SETUSER", "app", "on", ">secret", "allkeys",
			"allchannels", "allcommands").Err())
		serves(t, client(true), client(true))
	})
	t.Run("without a certificate", func(t *testing.T) {
		rdb := client(false)
		t.Cleanup(func() { _ = rdb.Close() })
		c := NewClient(t, rdb)
		_, err := c.RateLimiter("l").TryAcquire(t.Context(), 1, 0)
		WantText(t, err, "no answer from Redis", `"l"`, "tls: ", "certificate")
	})
}
