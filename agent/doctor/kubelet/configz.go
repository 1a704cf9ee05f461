package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ebb-agent/ebb/runtime/kube"
)

// FromConfigz is the source of settings that the kubelet itself reported.
const FromConfigz = "/configz"

// FromKubelet asks the kubelet for the configuration that it runs with.
func FromKubelet(ctx context.Context, o kube.KubeletOptions) (Settings, error) {
	k, err := kube.NewKubelet(o)
	if err != nil {
		return Defaults(), err
	}
	body, err := k.Configz(ctx)
	if err != nil {
		return Defaults(), err
	}
	return FromAnswer(body)
}

var errNoConfigz = errors.New("what answers is not a kubelet's /configz")

// FromAnswer reads a kubelet's answer, {"kubeletconfig": {…}}. An API server may have relayed it.
// The answer includes all defaults, also thresholds: a threshold that it does not name does not
// exist.
func FromAnswer(body []byte) (Settings, error) {
	s := Defaults()
	var answer struct {
		Config document `json:"kubeletconfig"`
	}
	if len(body) > maxFileBytes || json.Unmarshal(body, &answer) != nil || answer.Config == nil {
		return s, errNoConfigz
	}
	if err := s.lay(answer.Config, FromConfigz); err != nil {
		return s, fmt.Errorf("/configz: %w", err)
	}
	return s, nil
}
