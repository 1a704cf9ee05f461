package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/agent/show"
)

// apiAccess is how the API server is reached.
type apiAccess struct{ kubeconfig, context string }

func (c *apiAccess) flags(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file; without it $KUBECONFIG, ~/.kube/config, or the pod's service account")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig; without it the current one")
}

// loader reads a kubeconfig as kubectl does.
func (c *apiAccess) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return proxied{clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})}
}

// proxied uses the environment's proxy if the kubeconfig names none.
type proxied struct{ kubeconfig }

type kubeconfig = clientcmd.ClientConfig // a field and a method may not have the same name

func (p proxied) ClientConfig() (*rest.Config, error) {
	config, err := p.kubeconfig.ClientConfig()
	if err == nil && config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment
	}
	return config, err
}

func (c *apiAccess) config() (*rest.Config, error) {
	config, err := c.loader().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return config, nil
}

// defaultNamespace sets an empty namespace to the kubeconfig's.
func (c *apiAccess) defaultNamespace(namespace *string) (err error) {
	if *namespace == "" {
		if *namespace, _, err = c.loader().Namespace(); err != nil {
			err = fmt.Errorf("read kubeconfig: %w", err)
		}
	}
	return err
}

// access is apiAccess, with the format of the output.
type access struct {
	apiAccess
	output  string
	outputs []string // formats that the command has; nil: textOrJSON
}

var (
	textOrJSON = []string{"text", "json"}
	allOutputs = []string{"text", "json", "yaml", "name"}
)

func (a *access) choices() []string {
	if a.outputs == nil {
		return textOrJSON
	}
	return a.outputs
}

func (a *access) flags(f *pflag.FlagSet) {
	a.apiAccess.flags(f)
	usage := "output format: " + strings.Join(a.choices(), ", ")
	if len(a.choices()) > 1 {
		usage += "; field names are stable"
	}
	f.StringVarP(&a.output, "output", "o", "text", usage)
}

func (a *access) checkOutput() error { return checkOutput(a.output, a.choices()) }

func checkOutput(output string, choices []string) error {
	if !slices.Contains(choices, output) {
		return usagef("--output: %q is none of %s", output, strings.Join(choices, ", "))
	}
	return nil
}

func (a *access) config() (*rest.Config, error) {
	if err := a.checkOutput(); err != nil {
		return nil, err
	}
	return a.apiAccess.config()
}

// answer writes an answer, as text or as JSON. It returns bad unless well.
func (a *access) answer(w io.Writer, answer any, text func() error, well bool, bad exitCode) error {
	if a.output == "json" {
		text = func() error { return show.WriteJSON(w, answer) }
	}
	if err := text(); err != nil || well {
		return err
	}
	return bad
}
