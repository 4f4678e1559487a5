"""Local files for Spark that are created without a command for each.

Hadoop runs `chmod` for every file that it creates, unless it finds a native library that Spark does not come with. Each
batch creates two files, and the commands took a tenth of its CPU.
"""

from typing import Any

from pyspark.sql import SparkSession

_NAME = "PlainFiles"
_SOURCE = f"""
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class {_NAME} extends RawLocalFileSystem {{
    public void setPermission(Path path, FsPermission permission) throws IOException {{
        if (permission.getStickyBit()) {{
            // Java has no name for it.
            super.setPermission(path, permission);
        }} else {{
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
        }}
    }}
}}
"""


def use_plain_files(session: SparkSession) -> None:
    """Have Hadoop set permissions itself, by a class compiled with the compiler for Spark's generated code."""
    context: Any = session.sparkContext
    jvm, java = context._jvm, context._jsc  # noqa: SLF001 - there is no public way to them
    settings = java.hadoopConfiguration()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE)
    settings.setClassLoader(compiler.getClassLoader())
    settings.set("fs.file.impl", _NAME)
    # Hadoop caches the first one that is made, so it has to be this.
    files = jvm.org.apache.hadoop.fs
    files.FileSystem.closeAll()
    files.Path("file:///").getFileSystem(settings)
