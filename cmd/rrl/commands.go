package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/redisson-go/rratelimiter/internal/words"
)

// commands returns the commands of rrl; help sorts them.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.compareCommand(), versionCommand(), manCommand(),
		a.inspectCommand(), a.listCommand(), a.watchCommand(), a.serveCommand(),
		a.setCommand(), a.trySetCommand(), a.updateCommand(),
		a.acquireCommand(), a.releaseCommand(), a.chargeCommand(), a.reserveCommand(), a.settleCommand(),
		a.lockCommand(), a.unlockCommand(),
		a.deleteCommand(), a.renameCommand(), a.repairCommand(),
	}
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
