// What the console uses of uPlot; `make console` bundles it as uplot.js.
export { default } from "uplot";
