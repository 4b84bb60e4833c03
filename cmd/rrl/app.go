package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// An app is one run of rrl, which all commands share.
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

const about = `rrl inspects rate limiters and locks of Redisson and of its Go port rratelimiter, and
works with them. The commands that only look (list, inspect, watch, serve) write nothing
to Redis. A rate is written 5 1s or 5/1s.

Exit codes: 0 yes or done, 1 no (refused, not found, check failed), 2 error,
3 a lock was lost, 130 interrupted.`

// execute carries out a command line.
func (a *app) execute(ctx context.Context, args []string) error {
	root := a.root()
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// root returns rrl with all its commands and flags.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "rrl", Short: "inspect rate limiters and locks of Redisson", Long: about,
		Version: words.Version(), SilenceErrors: true, SilenceUsage: true,
		Args: suggest,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("rrl {{.Version}}\n")
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	a.place.flags(flags)
	flags.BoolVar(&a.json, "json", false, "print JSON")
	flags.StringVar(&a.prefix, "name-prefix", "",
		"prefix of a name mapper before names (RRL_NAME_PREFIX)")
	flags.StringVar(&a.id, "id", "", "act as this client of a PER_CLIENT limit, or look at its part")
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	files := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	for _, flag := range []string{"cacert", "cert", "key"} {
		_ = root.RegisterFlagCompletionFunc(flag, files) // it exists
	}
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		a.started = true
		return setFromEnvironment(flags)
	}
	root.AddCommand(a.commands()...)
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"}) // it exists
	help.Args = helpArgs
	return root
}

// helpArgs refuses the name of an unknown command. The help command of cobra would print the general help.
func helpArgs(help *cobra.Command, args []string) error {
	if cmd, rest, _ := help.Root().Find(args); cmd == help.Root() {
		return suggest(cmd, rest)
	}
	return nil
}

// suggest refuses an unknown command and suggests the one that may be meant.
func suggest(root *cobra.Command, args []string) error {
	err := cobra.NoArgs(root, args)
	if err == nil {
		return nil
	}
	const typos = 2
	root.SuggestionsMinimumDistance = typos
	if similar := root.SuggestionsFor(args[0]); len(similar) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(similar, " or "))
	}
	return err
}

// password is that of an address without a scheme, as in USER:PASSWORD@HOST:PORT.
var password = regexp.MustCompile(`:\S*@`)

// explain adds a hint to an error, where there is one.
func (a *app) explain(err error) error {
	switch {
	case !a.started: // an argument may be the address of Redis
		return fmt.Errorf("%s; run 'rrl help' for usage", password.ReplaceAllString(err.Error(), ":***@"))
	case redis.HasErrorPrefix(err, "MOVED"):
		return fmt.Errorf("%w; for a cluster use --redis redis+cluster://HOST:PORT", err)
	case errors.Is(err, rratelimiter.ErrNotInitialized), errors.Is(err, rratelimiter.ErrInvalidArgument):
		return errors.New(typedAs.Replace(err.Error()))
	}
	return err
}

// typedAs replaces arguments and methods of the library by the flags, arguments and commands for them.
var typedAs = strings.NewReplacer(": keepAlive is ", ": --keep-alive is ", ": lease is ", ": --lease is ",
	" of New: id is ", ": --id is ", " of Reservation: id is ", ": ID is ",
	" of Reservation: the ID of the Client is ", ": --id is ",
	": set one by WithRate, TrySetRate or rrl set",
	"; rrl list shows the limiters, rrl set NAME RATE INTERVAL sets a rate")

// mapped returns the name of the hash of a limiter.
func (a *app) mapped(name string) string { return a.prefix + name }

// withClient calls do with a Client of rratelimiter, whose limiters have the names that programs use.
func (a *app) withClient(ctx context.Context, do func(c *rratelimiter.Client) error) error {
	return a.withRedis(ctx, func(rdb redis.UniversalClient) error {
		c := a.client(rdb)
		defer c.Close()
		return do(c)
	})
}

// client returns a Client of rratelimiter on rdb.
func (a *app) client(rdb redis.UniversalClient) *rratelimiter.Client {
	opts := []rratelimiter.Option{rratelimiter.WithNameMapper(a.mapped)}
	if a.id != "" {
		opts = append(opts, rratelimiter.WithID(a.id))
	}
	return rratelimiter.New(rdb, opts...)
}

// withRedis calls do with a connection to Redis, if Redis replies.
func (a *app) withRedis(ctx context.Context, do func(rdb redis.UniversalClient) error) error {
	rdb, err := a.place.open(ctx)
	if err != nil {
		return err
	}
	defer rdb.Close()
	return do(rdb)
}

// print prints a result: as JSON, or by text.
func (a *app) print(v any, text func(w io.Writer)) error { return a.printTo(a.stdout, v, text) }

// printTo is print to a writer.
func (a *app) printTo(w io.Writer, v any, text func(w io.Writer)) error {
	if !a.json {
		text(w)
		return nil
	}
	return words.JSON(w, v, "  ")
}

// confirm asks for a yes before something is destroyed, unless yes was given. It returns when ctx ends,
// although its goroutine may go on reading the terminal.
func (a *app) confirm(ctx context.Context, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	fmt.Fprintf(a.stderr, format+" Type yes to go on: ", args...)
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		lines <- line
	}()
	var line string
	select {
	case line = <-lines:
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return ctx.Err()
	}
	if strings.TrimSpace(line) == "yes" {
		return nil
	}
	if !strings.HasSuffix(line, "\n") {
		fmt.Fprintln(a.stderr)
	}
	return errors.New("nothing was done: type yes, or give --yes")
}
