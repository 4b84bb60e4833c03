package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/redisson-go/rratelimiter/cmd/rrl/demo"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// commands returns the commands of rrl; help sorts them.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.demoCommand(), a.compareCommand(), versionCommand(), manCommand(),
		a.inspectCommand(), a.listCommand(), a.watchCommand(), a.serveCommand(),
		a.setCommand(), a.trySetCommand(), a.updateCommand(),
		a.acquireCommand(), a.releaseCommand(), a.chargeCommand(), a.reserveCommand(), a.settleCommand(),
		a.lockCommand(), a.unlockCommand(),
		a.deleteCommand(), a.renameCommand(), a.repairCommand(),
	}
}

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show four callers that share 5 permits per second, live",
		Long: `Four callers share 5 permits per second. It prints what each of them gets and when, and what
Redis holds at the end.

It runs on a Redis embedded in rrl. With the flag --redis it runs on a real one, under a name of its
own that is deleted at the end.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, colours := a.screen()
			d := demo.Demo{
				Inspect: inspectOnce, Colours: colours && runtime.GOOS != "windows",
				Program: callable(os.Args[0]),
			}
			if !cmd.Flags().Changed("redis") {
				return d.Run(cmd.Context(), a.stdout)
			}
			return a.withRedis(cmd.Context(), func(rdb redis.UniversalClient) error {
				d.Redis, d.Where = rdb, a.place.where()
				return d.Run(cmd.Context(), a.stdout)
			})
		},
	}
}

// callable returns how a user calls rrl again. go run calls it by an absolute path that does not last.
func callable(called string) string {
	for _, folder := range []string{"./cmd/rrl", "."} {
		if _, err := os.Stat(filepath.Join(folder, "demo/demo.go")); err == nil && filepath.IsAbs(called) {
			return "go run " + folder
		}
	}
	return called
}

// inspectOnce prints what rrl inspect prints of a limiter.
func inspectOnce(ctx context.Context, rdb redis.UniversalClient, name string, w io.Writer) error {
	l, err := inspect.Read(ctx, rdb, name, inspect.Few)
	if err == nil {
		report{Limiter: l}.print(w)
	}
	return err
}

// manCommand writes the manual pages, for packages of rrl.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages to a folder", Args: named(0, 1, 1), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "rrl"}, args[0])
		},
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { cmd.Printf("rrl %s\n", words.Version()) },
	}
}
