package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"github.com/redisson-go/rratelimiter/cmd/rrl/web"
	"github.com/redisson-go/rratelimiter/internal/inspect"
)

// A serving is the flags of rrl serve.
type serving struct {
	listen    string
	tokenFile string
	hosts     []string
	match     string
	config    web.Config
}

func (a *app) serveCommand() *cobra.Command {
	s := serving{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show limiters in the browser, live",
		Long: `Show a list of the limiters, and each of them live, as pages for the browser. Looking writes
nothing to Redis. A limiter is read once a second, however many browsers show it.

It listens on this machine only, unless --listen says otherwise. On another address it needs a
token of at least 16 bytes, in the environment variable RRL_TOKEN or in a file. If there is one,
readers enter it as the password, with any user name. It has no TLS: put a proxy in front of it.`,
		Example: `  rrl serve
  rrl serve --listen :8380 --token-file /run/secrets/rrl --mask`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), &s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8380", "`ADDRESS:PORT` to listen on; port 0 for any")
	flags.StringVar(&s.config.Prefix, "prefix", "/", "`PATH` under which the pages are")
	flags.StringVar(&s.tokenFile, "token-file", "", "`FILE` with the token, instead of RRL_TOKEN")
	flags.StringSliceVar(&s.hosts, "host", nil, "`NAME` by which a proxy reaches it, besides localhost")
	flags.BoolVar(&s.config.Mask, "mask", false, "show short hashes in place of names and ids")
	flags.StringVar(&s.match, "match", "", "`PATTERN` of Redis: show no other limiters")
	return cmd
}

// mostConnections is how many are served at once: 100 viewers, each with a page beside its stream. Further
// ones wait.
const mostConnections = 250

// stopping is how long requests may take to end after a Ctrl-C.
const stopping = time.Second

func (a *app) serve(ctx context.Context, s *serving) error {
	if err := a.complete(s); err != nil {
		return err
	}
	return a.withRedis(ctx, func(rdb redis.UniversalClient) error {
		pages, err := web.New(rdb, s.config)
		if err != nil {
			return errors.New(flagOf.Replace(err.Error()))
		}
		defer pages.Close()
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.listen)
		if err != nil {
			return err
		}
		listener = netutil.LimitListener(listener, mostConnections)
		server := &http.Server{
			Handler:           pages,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    64 << 10,
		}
		url := "http://" + reached(listener.Addr()) + s.config.Prefix
		if err := a.print(map[string]string{"url": url}, func(w io.Writer) {
			fmt.Fprintf(w, "%s shows the limiters of %s. Ctrl-C ends it.\n", url, a.place.where())
		}); err != nil {
			return errors.Join(err, listener.Close())
		}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
		}
		_ = pages.Close() // ends the live pages, which would keep the server
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopping)
		defer cancel()
		if server.Shutdown(late) != nil {
			_ = server.Close() // cuts off the rest
		}
		<-ended
		return nil
	})
}

// flagOf replaces the fields of web.Config that web.New may refuse by what a user sets.
var flagOf = strings.NewReplacer(
	"web: Prefix", "--prefix", "web: Match", "--match", "web: Token", "the token")

// reached returns the address by which this machine reaches a listener.
func reached(address net.Addr) string {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return address.String()
}

// complete checks the flags and completes the Config.
func (a *app) complete(s *serving) error {
	if a.id != "" {
		return errors.New("--id is not for serve: the page of a limiter has its clients to choose from")
	}
	host, port, err := net.SplitHostPort(s.listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("--listen is %q, must be ADDRESS:PORT, as in 127.0.0.1:8380", s.listen)
	}
	c := &s.config
	if c.Token, err = token(s.tokenFile); err != nil {
		return err
	}
	c.Match = inspect.Literal(a.prefix) + cmp.Or(s.match, "*")
	ip := net.ParseIP(host)
	switch local := host == "localhost" || ip != nil && ip.IsLoopback(); {
	case local:
		c.Hosts = append([]string{"localhost", "127.0.0.1", "::1", host}, s.hosts...)
	case c.Token == "":
		return fmt.Errorf("--listen is %q, which other machines reach: "+
			"it needs a token, by RRL_TOKEN or a file", s.listen)
	default:
		c.Hosts = nil // the token protects it under any name
	}
	return nil
}

// token returns the token, empty for none. It is not a flag, because other users of the machine see flags.
func token(file string) (string, error) {
	if file == "" {
		return os.Getenv("RRL_TOKEN"), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("--token-file: %s is empty", file)
	}
	return token, nil
}
