package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/stdio"
)

const dialLong = `dial-stdio connects standard input and output to the admin socket of the agent on this node.
The command ebb runs it in the agent's pod, by exec through the API server. It needs root.

It ends when the agent closes the connection, or a minute after the end of its input. Keep
the input open until the answer is there, because its end cancels the request.

Exit codes: 0 the agent closed the connection, 1 error.`

const dialExamples = `  # ask the agent of a pod by HTTP; end the input with Ctrl-D
  { printf 'GET / HTTP/1.0\r\n\r\n'; cat; } | kubectl -n ebb-system exec -i ebb-agent-x7k2p -- /usr/bin/ebb-agent dial-stdio`

func dialCommand(stdout io.Writer) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: "dial-stdio", Short: "Connect standard input and output to the agent's admin socket", Long: dialLong, Example: dialExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return stdio.Dial(cmd.Context(), socket, os.Stdin, stdout)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", stdio.DefaultSocket, "path of the admin socket")
	return cmd
}
