// Runs while the page is still on its way: asks for the models, with the image that the address names.
{
  const link = document.createElement("link"), state = new URLSearchParams(location.hash.slice(1)), example = state.get("example");
  const query = new URLSearchParams({images: state.get("model") ?? "false", examples: /^\d{1,3}$/.test(example) ? Number(example) + 1 : 1});
  Object.assign(link, {id: "models-asked", rel: "preload", as: "fetch", crossOrigin: "anonymous", href: `api/models?${query}`});
  document.head.append(link);
}
