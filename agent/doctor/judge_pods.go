package doctor

import (
	"errors"
	"fmt"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// judgePods: can the agent learn who runs on this node?
func judgePods(all *findings, f *Facts) {
	const id = "agent.pods"
	p := &f.Pods
	switch {
	case p.Source == config.PodsFromNobody:
		all.add(Note, id, "pods.source is none: nobody tells ebb which pods are bound to this node",
			"the last dead container and the last sandbox of each deleted pod stay to the kubelet, logs too, "+
				"and an image that a pod waits for counts as unused until its container is there",
			"pods.source: kubelet or apiserver in "+ebbFile(f))
	case errors.Is(p.Err, kube.ErrIncomplete):
		all.add(Warning, id, fmt.Sprintf("the pods of this node are not known yet: %v", p.Err),
			"a kubelet that has just begun has not heard of all; until it has, nothing counts as left by a deleted pod", "look again in a minute")
	case p.Err != nil:
		all.add(Warning, id, fmt.Sprintf("the pods of this node are not known: %v", p.Err),
			"while they are not, nothing counts as left by a deleted pod, and images are not held for pods that wait for them",
			"mend pods in "+ebbFile(f)+", or the permission that is named above")
	default:
		all.ok(id, fmt.Sprintf("%d pods are known from %s", p.Count, p.From))
	}
}
