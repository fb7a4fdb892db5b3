// Server-side apply by typed and dynamic clients, and an informer over a kind this program has no types for.
package main

import (
	"context"
	"log"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// managersOwnWhatTheyApply: others are refused what somebody else set, may take it by force, and what a
// manager leaves out goes away.
func managersOwnWhatTheyApply(ctx context.Context, clients kubernetes.Interface) {
	maps := clients.CoreV1().ConfigMaps(namespace)
	apply := func(manager string, force bool, data map[string]string) (string, error) {
		wanted := applycore.ConfigMap("applied", namespace).WithData(data)
		made, err := maps.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: manager, Force: force})
		if err != nil {
			return "", err
		}
		return made.ResourceVersion, nil
	}
	first, err := apply("one", false, map[string]string{"a": "1", "b": "1"})
	must("apply as one", err)
	again, err := apply("one", false, map[string]string{"a": "1", "b": "1"})
	must("apply as one again", err)
	if first != again {
		log.Fatalf("the same intent changed the version: %s, %s", first, again)
	}
	if _, err = apply("two", false, map[string]string{"a": "2"}); !apierrors.IsConflict(err) {
		log.Fatalf("two took over what one owns: %v", err)
	}
	_, err = apply("two", true, map[string]string{"a": "2"})
	must("apply as two by force", err)
	_, err = apply("one", false, map[string]string{})
	must("apply nothing as one", err)
	left, err := maps.Get(ctx, "applied", metav1.GetOptions{})
	must("get what was applied", err)
	if len(left.Data) != 1 || left.Data["a"] != "2" {
		log.Fatalf("left of what was applied: %v", left.Data)
	}
	// What one owns can be read back as what one would apply.
	extracted, err := applycore.ExtractConfigMap(left, "two")
	must("extract what two owns", err)
	if extracted.Data["a"] != "2" {
		log.Fatalf("extracted: %v", extracted.Data)
	}
}

// unknownKindsAreFollowed: a dynamic informer sees what a dynamic client applies to a custom kind.
func unknownKindsAreFollowed(ctx context.Context, config *rest.Config) {
	client, err := dynamic.NewForConfig(config)
	must("make the dynamic client", err)
	defineWidgets(ctx, client)
	resource := schema.GroupVersionResource{Group: "golang.example.com", Version: "v1", Resource: "widgets"}
	events := make(chan string, 100)
	own, stop := context.WithCancel(ctx)
	defer stop()
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	informer := factory.ForResource(resource).Informer()
	tell := func(what string) func(any) {
		return func(object any) {
			if gone, is := object.(cache.DeletedFinalStateUnknown); is {
				object = gone.Obj
			}
			widget := object.(*unstructured.Unstructured)
			size, _, _ := unstructured.NestedString(widget.Object, "spec", "size")
			events <- what + " " + widget.GetName() + " " + size
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    tell("add"),
		UpdateFunc: func(_, object any) { tell("update")(object) },
		DeleteFunc: tell("delete"),
	})
	must("handle events", err)
	factory.Start(own.Done())
	if !cache.WaitForCacheSync(own.Done(), informer.HasSynced) {
		log.Fatal("the dynamic informer never synced")
	}
	widgets := client.Resource(resource).Namespace(namespace)
	apply := func(size string) {
		wanted := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "golang.example.com/v1", "kind": "Widget",
			"metadata": map[string]any{"name": "w", "namespace": namespace},
			"spec":     map[string]any{"size": size},
		}}
		made, err := widgets.Apply(ctx, "w", wanted, metav1.ApplyOptions{FieldManager: "golang"})
		must("apply a widget", err)
		managers := made.GetManagedFields()
		is := func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager == "golang" && entry.Operation == metav1.ManagedFieldsOperationApply
		}
		if !slices.ContainsFunc(managers, is) {
			log.Fatalf("managers of the widget: %v", managers)
		}
	}
	apply("small")
	expect(events, "add w small")
	apply("large")
	expect(events, "update w large")
	must("delete the widget", widgets.Delete(ctx, "w", metav1.DeleteOptions{}))
	expect(events, "delete w large")
}

func defineWidgets(ctx context.Context, client dynamic.Interface) {
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	text := map[string]any{"type": "string"}
	spec := map[string]any{"type": "object", "properties": map[string]any{"size": text}}
	_, err := definitions.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.golang.example.com"},
		"spec": map[string]any{
			"group": "golang.example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": spec},
				}},
			}},
		},
	}}, metav1.CreateOptions{})
	must("define widgets", err)
	widgets := client.Resource(schema.GroupVersionResource{Group: "golang.example.com", Version: "v1", Resource: "widgets"})
	for {
		if _, err := widgets.List(ctx, metav1.ListOptions{}); err == nil {
			return
		}
		must("wait for widgets", ctx.Err())
	}
}
