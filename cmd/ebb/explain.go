package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/preview"
)

const explainExamples = `  # an object, named as in kubectl
  ebb control explain replicaset/web-1 -n shop
  ebb control explain node/worker-3

  # without an API server that resolves the type
  ebb control explain --api-version apps/v1 --kind ReplicaSet -n shop --name web-1`

// explained is the object that is asked about.
type explained struct{ apiVersion, kind, namespace, name, uid string }

func (c *control) explainCommand() *cobra.Command {
	var o explained
	cmd := &cobra.Command{Use: "explain [TYPE/NAME]", Short: "Explain why an object still exists, or what happened to it", Args: cobra.MaximumNArgs(2),
		Long: `explain shows as JSON all that the controller knows about an object: its owners with a
judgement of each one, what waits for what, and what the controller will do. It changes
nothing.

TYPE is a type as in kubectl: deployments, deploy, Deployment, deployments.apps. The API
server resolves it. With --api-version, --kind and --name no API server is needed for that.`,
		Example: explainExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.name(cmd.Context(), &o, args); err != nil {
				return err
			}
			path, flags := o.request()
			return c.ask(cmd, http.MethodGet, path, append([]string{"explain"}, flags...)...)
		}}
	flags := cmd.Flags()
	flags.StringVar(&o.apiVersion, "api-version", "", "apiVersion of the object, in place of TYPE/NAME")
	flags.StringVar(&o.kind, "kind", "", "kind of the object")
	flags.StringVar(&o.name, "name", "", "name of the object")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the object; with TYPE/NAME by default that of the kubeconfig's context, else default")
	flags.StringVar(&o.uid, "uid", "", "UID of the object, if another object may have its name by now")
	cmd.MarkFlagsRequiredTogether("api-version", "kind", "name")
	return cmd
}

// name fills in the type, the namespace and the name of the object from TYPE/NAME, if that was
// given.
func (c *control) name(ctx context.Context, o *explained, args []string) error {
	switch {
	case len(args) == 0 && o.kind == "":
		return usagef("name the object: TYPE/NAME, for example deployment/web")
	case len(args) == 0:
		return nil
	case o.kind != "":
		return usagef("name the object by TYPE/NAME, or by --api-version, --kind and --name, not by both")
	}
	resource, name, err := target(args)
	if err != nil {
		return err
	}
	loader := c.to.loader()
	config, err := loader.ClientConfig()
	if err != nil {
		return fmt.Errorf("no API server can be asked what %q is (--api-version, --kind and --name do without): %w", resource, err)
	}
	t, err := preview.Resolve(ctx, config, resource)
	if err != nil {
		return err
	}
	o.apiVersion, o.kind, o.name = t.APIVersion, t.Kind, name
	switch {
	case !t.Namespaced:
		o.namespace = ""
	case o.namespace == "":
		if o.namespace, _, err = loader.Namespace(); err != nil {
			return fmt.Errorf("read kubeconfig: %w", err)
		}
	}
	return nil
}

// request returns the path of the request, and the flags of the command that sends the same.
func (o explained) request() (path string, flags []string) {
	query := url.Values{}
	for _, part := range []struct{ flag, name, value string }{
		{"api-version", "apiVersion", o.apiVersion}, {"kind", "kind", o.kind}, {"namespace", "namespace", o.namespace}, {"name", "name", o.name}, {"uid", "uid", o.uid},
	} {
		if part.value != "" {
			query.Set(part.name, part.value)
			flags = append(flags, "--"+part.flag+"="+part.value)
		}
	}
	return "/explain?" + query.Encode(), flags
}
