// Uses the server as programs written in Go do: informers with the default feature gates
// (streaming lists), typed writes in protobuf, and two leader electors over one Lease.
// Each promise is a function; the first one broken ends the program.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	namespace = "golang"
	patience  = 300 * time.Second
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	must("read the kubeconfig", err)
	if len(os.Args) > 2 && os.Args[2] == "clusters" {
		listClusters(config)
		return
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	clients, err := kubernetes.NewForConfig(config)
	must("make the clients", err)

	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	_, err = clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
	}, metav1.CreateOptions{})
	must("create the namespace", err)

	informerFollowsWrites(ctx, clients)
	managersOwnWhatTheyApply(ctx, clients)
	unknownKindsAreFollowed(ctx, config)
	leadershipMovesOn(ctx, config)
	must("delete the namespace", clients.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	fmt.Println("ok")
}

// informerFollowsWrites: what exists is listed, every later change arrives once and in order.
func informerFollowsWrites(ctx context.Context, clients kubernetes.Interface) {
	maps := clients.CoreV1().ConfigMaps(namespace)
	before := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "before", Labels: map[string]string{"seen": "yes"}},
		Data:       map[string]string{"n": "0"},
		BinaryData: map[string][]byte{"raw": {0, 255}},
	}
	_, err := maps.Create(ctx, before, metav1.CreateOptions{})
	must("create before", err)

	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0,
		informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "seen" }))
	informer := factory.Core().V1().ConfigMaps().Informer()
	events := make(chan string, 100)
	note := func(kind string) func(any) {
		return func(object any) {
			configMap := object.(*corev1.ConfigMap)
			events <- fmt.Sprintf("%s %s %s", kind, configMap.Name, configMap.Data["n"])
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    note("add"),
		UpdateFunc: func(_, object any) { note("update")(object) },
		DeleteFunc: note("delete"),
	})
	must("add the handler", err)
	stop := make(chan struct{})
	defer close(stop)
	factory.Start(stop)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		log.Fatal("the informer never synced")
	}
	expect(events, "add before 0")

	created, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "after", Labels: map[string]string{"seen": "yes"}},
		Data:       map[string]string{"n": "1"},
	}, metav1.CreateOptions{})
	must("create after", err)
	expect(events, "add after 1")
	created.Data["n"] = "2"
	_, err = maps.Update(ctx, created, metav1.UpdateOptions{})
	must("update after", err)
	expect(events, "update after 2")
	// An object that leaves the selector is gone for the informer.
	moved, err := maps.Get(ctx, "before", metav1.GetOptions{})
	must("get before", err)
	if string(moved.BinaryData["raw"]) != string(before.BinaryData["raw"]) {
		log.Fatalf("bytes changed on the way: %v", moved.BinaryData)
	}
	moved.Labels = nil
	_, err = maps.Update(ctx, moved, metav1.UpdateOptions{})
	must("update before", err)
	expect(events, "delete before 0")
	must("delete after", maps.Delete(ctx, "after", metav1.DeleteOptions{}))
	expect(events, "delete after 2")
	if left := informer.GetStore().ListKeys(); len(left) != 0 {
		log.Fatalf("left in the cache: %v", left)
	}
}

// leadershipMovesOn: one of two candidates leads, and the other takes over when it stops.
func leadershipMovesOn(ctx context.Context, config *rest.Config) {
	events := make(chan string, 10)
	var running sync.WaitGroup
	candidate := func(name string) context.CancelFunc {
		own, cancel := context.WithCancel(ctx)
		lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, "leader",
			resourcelock.ResourceLockConfig{Identity: name}, config, 40*time.Second)
		must("make the lock", err)
		running.Go(func() {
			leaderelection.RunOrDie(own, leaderelection.LeaderElectionConfig{
				Lock:            lock,
				LeaseDuration:   60 * time.Second,
				RenewDeadline:   40 * time.Second,
				RetryPeriod:     500 * time.Millisecond,
				ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { events <- name + " leads" },
					OnStoppedLeading: func() {},
				},
			})
		})
		return cancel
	}
	stopFirst := candidate("first")
	expect(events, "first leads")
	stopSecond := candidate("second")
	stopFirst()
	expect(events, "second leads")
	stopSecond()
	running.Wait()
}

func expect(events <-chan string, wanted string) {
	select {
	case event := <-events:
		if event != wanted {
			log.Fatalf("wanted %q, saw %q", wanted, event)
		}
	case <-time.After(patience):
		log.Fatalf("waited in vain for %q", wanted)
	}
}

func must(what string, err error) {
	if err != nil {
		log.Fatalf("%s: %v", what, err)
	}
}
