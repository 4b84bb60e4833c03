package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter"
)

// An app is one run of rrl: what all commands share.
type app struct {
	stdin  io.Reader
	stdout *output
	stderr io.Writer

	started bool // the command line was understood
	place   place
	json    bool
	prefix  string
	id      string
}

const about = `rrl looks into rate limiters of Redisson and of its Go port rratelimiter, and works with
them. What only looks (list, inspect, watch, serve) writes nothing to Redis.

Exit codes: 0 yes or done, 1 no (refused, not there, check failed), 2 error,
130 interrupted.`

// execute carries out a command line.
func (a *app) execute(ctx context.Context, args []string) error {
	root := &cobra.Command{
		Use: "rrl", Long: about, Version: version(),
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(*cobra.Command, []string) {
			a.started = true
		},
	}
	root.SetVersionTemplate("rrl {{.Version}}\n")
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	a.place.flags(flags)
	flags.BoolVar(&a.json, "json", false, "print JSON")
	flags.StringVar(&a.prefix, "name-prefix", os.Getenv("RRL_NAME_PREFIX"),
		"what a name mapper puts before names (RRL_NAME_PREFIX)")
	flags.StringVar(&a.id, "id", "", "act as this client of a PER_CLIENT limit, or look at its part")
	root.AddCommand(a.commands()...)
	return root.ExecuteContext(ctx)
}

// explain adds to an error what helps with it.
func (a *app) explain(err error) error {
	switch {
	case !a.started:
		return fmt.Errorf("%w; run 'rrl help' for usage", err)
	case redis.HasErrorPrefix(err, "MOVED"):
		return fmt.Errorf("%w; for a cluster use --redis redis+cluster://HOST:PORT", err)
	}
	return err
}

// version returns the version of the module as go install and go build record it, "(devel)"
// under go run, and what it was built with.
func version() string {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return fmt.Sprintf("%s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// mapped returns the name of the hash of a limiter.
func (a *app) mapped(name string) string { return a.prefix + name }

// withClient calls do with a Client of rratelimiter, whose limiters have the names that programs use.
func (a *app) withClient(ctx context.Context, do func(c *rratelimiter.Client) error) error {
	return a.withRedis(ctx, func(rdb redis.UniversalClient) error {
		opts := []rratelimiter.Option{rratelimiter.WithNameMapper(a.mapped)}
		if a.id != "" {
			opts = append(opts, rratelimiter.WithID(a.id))
		}
		c := rratelimiter.New(rdb, opts...)
		defer c.Close()
		return do(c)
	})
}

// withRedis calls do with a connection to Redis, if that replies.
func (a *app) withRedis(ctx context.Context, do func(rdb redis.UniversalClient) error) error {
	rdb, err := a.place.open(ctx)
	if err != nil {
		return err
	}
	defer rdb.Close()
	return do(rdb)
}

// print prints a result: as JSON, or by text.
func (a *app) print(v any, text func(w io.Writer)) error {
	if !a.json {
		text(a.stdout)
		return nil
	}
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// confirm asks for a yes before something is destroyed, unless yes was given.
func (a *app) confirm(yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	fmt.Fprintf(a.stderr, format+" Type yes to go on: ", args...)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	if strings.TrimSpace(line) == "yes" {
		return nil
	}
	if err != nil {
		fmt.Fprintln(a.stderr)
	}
	return fmt.Errorf("nothing was done: it needs a yes, or --yes")
}
