package main

import (
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter/cmd/rrl/demo"
)

// commands returns the commands of rrl, in no order: help sorts them.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.demoCommand(), a.compareCommand(), versionCommand(),
		a.inspectCommand(), a.listCommand(), a.watchCommand(), a.serveCommand(), a.loadCommand(),
		a.setCommand(), a.trySetCommand(), a.updateCommand(),
		a.acquireCommand(), a.releaseCommand(), a.lockCommand(), a.unlockCommand(),
		a.deleteCommand(), a.renameCommand(), a.repairCommand(),
	}
}

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show four callers that share 5 permits per second, live",
		Long: `Four callers share 5 permits per second. It prints what each of them gets and when, and
what Redis holds at the end.

It runs on a Redis embedded in rrl. With the flag --redis it runs on a real one, under a
name of its own that is deleted at the end.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("redis") {
				return demo.Run(cmd.Context(), nil, "", a.stdout.w)
			}
			return a.withRedis(cmd.Context(), func(rdb redis.UniversalClient) error {
				return demo.Run(cmd.Context(), rdb, a.place.where(), a.stdout.w)
			})
		},
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { cmd.Printf("rrl %s\n", version()) },
	}
}
