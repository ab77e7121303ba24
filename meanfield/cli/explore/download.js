// a button has the name and the content of a file as its tags
const [name, data] = cb_obj.tags, link = document.createElement("a");
link.href = `data:application/octet-stream;base64,${data}`; link.download = name; link.click();
